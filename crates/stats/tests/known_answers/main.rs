//! Goal: what is said of a series holds as often as it is said to, where the truth is known.
//! Method: series and latencies are made at random around a known truth, many times over and with fixed seeds; what
//! happens how often is held against what was promised. Any input at all gives a finite answer.

#![allow(clippy::unwrap_used)]

mod any_input;
mod comparisons;
mod few;
mod kinds;
mod noise;
mod percentiles;
mod rates;
