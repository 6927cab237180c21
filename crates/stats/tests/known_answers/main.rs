//! Goal: statements about a series hold as often as they promise, where the truth is known.
//! Method: series and latencies are made at random around a known truth, many times over and with fixed seeds. The
//! frequency of each result is compared with the promise. Any input at all gives a finite answer.

#![allow(clippy::unwrap_used)]

mod any_input;
mod comparisons;
mod few_runs;
mod kinds;
mod noise;
mod percentiles;
mod rates;
