//! Records for tests.

use model::run::{PhaseRecord, WorkloadRecord};
use model::spec;
use model::workload::CacheMode;
use serde_json::json;

/// The record of a test whose threads were on a CPU half of the time.
pub(crate) fn phase(spec: &str, ops: u64, bytes: u64, elapsed_ns: u64) -> PhaseRecord {
    let workload = spec::parse(spec, &spec::Defaults::default()).unwrap();
    serde_json::from_value(json!({
        "id": "1", "spec": spec, "name": workload.name(), "label": workload.label(), "group": null, "repetition": 1,
        "workload": WorkloadRecord::new(&workload, bytes, 1, CacheMode::AsIs),
        "engine": {"name": "sync", "features": [], "mean_batch": null, "idle_slots": null},
        "status": "done", "reason": null, "start_ns": 0, "ops": ops, "bytes": bytes,
        "app_bytes_read": 0, "app_bytes_written": bytes, "elapsed_ns": elapsed_ns, "passes": 1.0,
        "rate": {
            "ops_per_second": 1.0, "bytes_per_second": null, "steady_ops_per_second": null,
            "overall_ops_per_second": null, "durable_ops_per_second": null, "into_cache_ops_per_second": null,
            "ci95_low_ops_per_second": null, "ci95_high_ops_per_second": null, "first_done_ns": 0, "last_done_ns": 0,
        },
        "latency_ns": {
            "min": 1, "mean": 2, "p50": null, "p90": null, "p99": null, "p99_9": null, "max": 73_049_999,
        },
        "histogram": null, "queueing_ns": null, "steps": [], "device": null, "page_cache_share": null,
        "intervals": {"count": 0, "start_ns": [], "length_ns": [], "ops": [], "bytes": []},
        "budget": {"user": 0.1, "kernel": 0.4, "run_queue": 0.0, "quota": null, "steal": 0.0, "blocked": 0.5},
        "cpu": null, "own_cost_ns_per_op": null, "notes": [],
    }))
    .unwrap()
}
