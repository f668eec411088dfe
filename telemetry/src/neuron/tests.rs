use super::*;

/// One process on two cores of an inf2 host, with a group that failed and an idle latency.
const BUSY: &str = r#"{"neuron_runtime_data": [{"pid": 7, "address": "7", "neuron_runtime_tag": "vllm", "error": "", "report": {
  "execution_stats": {"period": 5.0, "error_summary": {"generic": 0, "numerical": 1}, "execution_summary": {"completed": 40},
    "latency_stats": {"total_latency": {"p50": 0.012, "p99": 0.02}, "device_latency": null}, "error": ""},
  "memory_used": {"period": 5.0, "neuron_runtime_used_bytes": {"host": 1000, "neuron_device": 2000,
    "usage_breakdown": {"host": {"constants": 1}, "neuroncore_memory_usage": {"0": {"constants": 1500, "tensors": 500}}}}},
  "neuroncore_counters": {"period": 5.0, "neuroncores_in_use": {"0": {"neuroncore_utilization": 42.5, "flops": 12}, "1": {}}},
  "neuron_runtime_vcpu_usage": {"vcpu_usage": {"user": 6.0, "system": 2.0}}}}],
  "system_data": {"neuron_hw_counters": {"period": 5.0, "neuron_devices": [{"neuron_device_index": 0, "mem_ecc_corrected": 2}]},
    "memory_info": {"memory_total_bytes": 10, "memory_used_bytes": 4}},
  "instance_info": {"instance_id": "i-1", "instance_type": "inf2.48xlarge", "error": ""},
  "neuron_hardware_info": {"neuron_device_type": "inferentia2", "neuron_device_count": 12, "neuroncore_per_device_count": 2}}"#;

#[test]
fn a_document_is_read() {
    let report = parse(BUSY.as_bytes()).unwrap();
    let activity = &report.neuron_runtime_data[0].report;
    let cores = &activity.neuroncore_counters.neuroncores_in_use;
    assert_eq!((cores["0"].neuroncore_utilization, cores["1"].neuroncore_utilization), (Some(42.5), None));
    assert_eq!(activity.execution_stats.latency_stats.device_latency, None);
    assert_eq!(activity.execution_stats.error_summary["numerical"], Some(1.0));
    let held = &activity.memory_used.neuron_runtime_used_bytes.usage_breakdown.neuroncore_memory_usage["0"];
    assert_eq!(held["constants"], Some(1500.0));
    assert_eq!(report.system_data.neuron_hw_counters.neuron_devices[0].sram_ecc_corrected, None);
    assert_eq!(report.neuron_hardware_info.neuron_device_count, Some(12));
}

/// No process, no devices in a container, groups that are `null`: all of it is "nothing known".
#[test]
fn what_is_missing_is_unknown() {
    let idle = r#"{"neuron_runtime_data": [], "system_data": {"neuron_hw_counters": {"neuron_devices": null},
        "vcpu_usage": null}, "instance_info": null, "neuron_hardware_info": {"error": "no devices"}}"#;
    let report = parse(idle.as_bytes()).unwrap();
    assert_eq!(report, Report::default());
    assert!(matches!(parse(b"{\"a\": 1}"), Err(Fault::Foreign)));
}

/// Documents cut short or changed at any byte are an error or a report, and nothing else.
#[test]
fn broken_documents_are_errors() {
    for length in 0..BUSY.len() {
        assert!(parse(&BUSY.as_bytes()[..length]).is_err(), "{length}");
    }
    let mut read = 0;
    for at in 0..BUSY.len() {
        for mark in [b'"', b'{', b'}', b'[', b'0', b'-', 0xff] {
            let mut bytes = BUSY.as_bytes().to_vec();
            bytes[at] = mark;
            read += usize::from(parse(&bytes).is_ok());
        }
    }
    assert!(read > 0);
    let deep = "[".repeat(100_000);
    assert!(parse(format!("{{\"neuron_runtime_data\": {deep}").as_bytes()).is_err());
}

/// A device without data has unknown power; an idle one that is valid reads 0 % of what lies above the background.
#[test]
fn power_of_a_device() {
    let read = power("POWER_STATUS_VALID,1790000000,0.00,31.25,12.50\n");
    assert_eq!(read, Ok(Some(Power { epoch_s: 1_790_000_000, average: 0.125 })));
    assert_eq!(power("POWER_STATUS_VALID,1790000000,0.00,0.00,0.00").unwrap().unwrap().average, 0.0);
    assert_eq!(power("POWER_STATUS_NO_DATA,1790000000,0.00,0.00,0.00"), Ok(None));
    assert_eq!(power("POWER_STATUS_INVALID"), Ok(None));
    for bad in
        ["", "VALID", "POWER_STATUS_VALID,x,0,0,0", "POWER_STATUS_VALID,1,0,0,NaN", "POWER_STATUS_VALID,1,0,0,101"]
    {
        assert!(power(bad).is_err(), "{bad}");
    }
}
