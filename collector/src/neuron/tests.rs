use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message;

use super::*;
use crate::decode::check;

const NOW: u64 = 1_790_000_000_000_000_000;

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.clone()) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

/// Resource and points: name, the attributes, start and value.
type Written = (BTreeMap<String, String>, Vec<(String, BTreeMap<String, String>, u64, f64)>);

fn written(body: Option<Bytes>) -> Written {
    let body = body.expect("a body");
    assert_eq!(check::check(Signal::Metrics, &body, |_| false).unwrap().rejected, 0);
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let group = &request.resource_metrics[0];
    let mut points = Vec::new();
    for metric in &group.scope_metrics[0].metrics {
        let data = match metric.data.clone().unwrap() {
            metric::Data::Gauge(gauge) => gauge.data_points,
            metric::Data::Sum(sum) => {
                assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (1, true));
                sum.data_points
            }
            other => panic!("{other:?}"),
        };
        for point in data {
            let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("no value") };
            points.push((metric.name.clone(), texts(&point.attributes), point.start_time_unix_nano, value));
        }
    }
    (texts(&group.resource.as_ref().unwrap().attributes), points)
}

const DOCUMENT: &str = r#"{"neuron_runtime_data": [
  {"pid": 7, "neuron_runtime_tag": "vllm", "report": {
    "execution_stats": {"period": 5.0, "error_summary": {"generic": 2}, "execution_summary": {"completed": 40},
      "latency_stats": {"total_latency": {"p50": 0.012}, "device_latency": null}},
    "memory_used": {"neuron_runtime_used_bytes": {"host": 1000, "neuron_device": 2000,
      "usage_breakdown": {"neuroncore_memory_usage": {"2": {"constants": 1500, "tensors": 500}}}}},
    "neuroncore_counters": {"period": 5.0, "neuroncores_in_use": {"2": {"neuroncore_utilization": 40.0, "flops": 12}}}}},
  {"pid": 8, "neuron_runtime_tag": "other", "report": {
    "neuroncore_counters": {"period": 5.0, "neuroncores_in_use": {"2": {"neuroncore_utilization": 70.0}, "3": {}}}}}],
  "system_data": {"neuron_hw_counters": {"period": 5.0, "neuron_devices": [{"neuron_device_index": 1, "mem_ecc_corrected": 3}]}},
  "instance_info": {"instance_id": "i-1", "instance_type": "inf2.48xlarge", "instance_region": "us-east-1"},
  "neuron_hardware_info": {"neuron_device_type": "inferentia2", "neuron_device_count": 12,
    "neuron_device_memory_size": 34359738368, "neuroncore_per_device_count": 2},
  "neuron_k8s_info": {"neuroncores_k8s_info": {"2": {"pod_name": "vllm-0", "namespace": "prod"}}}}"#;

#[test]
fn a_document_becomes_metrics() {
    let report = neuron::parse(DOCUMENT.as_bytes()).unwrap();
    let mut host = Host::new(&BTreeMap::from([("cloud.region".to_owned(), "eu-west-1".to_owned())]));
    host.learn(&report);
    let (resource, points) = written(write::report(&host, &report, NOW));
    for (key, expected) in [
        ("host.id", "i-1"),
        ("host.type", "inf2.48xlarge"),
        ("cloud.region", "eu-west-1"),
        ("service.name", "neuron-monitor"),
        ("tokenwatt.chips", "12"),
    ] {
        assert_eq!(resource[key], expected);
    }
    let of = |name: &str| points.iter().filter(|point| point.0 == name).collect::<Vec<_>>();
    // Two processes on one core: together, and never more than all of it. Core 3 says nothing, so nothing is said of it.
    let [(_, core, start, share)] = of("hw.gpu.utilization")[..] else { panic!("one core") };
    assert_eq!((*share, *start), (1.0, 0));
    for (key, expected) in [
        ("hw.id", "nc2"),
        ("hw.type", "gpu"),
        ("hw.vendor", "AWS"),
        ("hw.model", "inferentia2"),
        ("hw.parent", "neuron1"),
        ("k8s.pod.name", "vllm-0"),
        ("tokenwatt.utilization_kind", "executing"),
    ] {
        assert_eq!(core[key], expected);
    }
    assert_eq!(of("hw.gpu.memory.usage")[0].3, 2_000.0);
    assert_eq!(of("hw.gpu.memory.limit")[0].3, 17_179_869_184.0);
    assert_eq!(of("neuron.execution.latency.total")[0].3, 0.012);
    assert!(of("neuron.execution.latency.device").is_empty());
    let [(_, outcome, start, count)] = of("neuron.executions")[..] else { panic!("one outcome") };
    assert_eq!((*start, *count), (NOW - 5_000_000_000, 40.0), "counts are of the period");
    assert_eq!(outcome["neuron.runtime.tag"], "vllm");
    let [(_, device, _, count)] = of("hw.errors")[..] else { panic!("one kind") };
    assert_eq!(
        (device["hw.id"].as_str(), device["error.type"].as_str(), *count),
        ("neuron1", "mem_ecc_corrected", 3.0)
    );
}

/// A host whose devices nobody uses says nothing of them.
#[test]
fn nothing_is_not_zero() {
    let report = neuron::parse(br#"{"neuron_runtime_data": [], "instance_info": {"instance_id": "i-1"}}"#).unwrap();
    assert_eq!(write::report(&Host::default(), &report, NOW), None);
}

/// A list of devices gives each its memory, and tells how many cores a chip has where the monitor does not; no device is no sample.
#[test]
fn a_list_of_devices() {
    let devices = neuron::ls::parse(
        br#"[{"neuron_device": 0, "nc_count": 2, "memory_size": 32, "neuron_processes": [{"pid": 1}, {"pid": 2}]},
             {"neuron_device": 1, "nc_count": 2}]"#,
    );
    let devices = devices.unwrap();
    let mut host = Host::new(&BTreeMap::from([("host.id".to_owned(), "i-1".to_owned())]));
    host.count(&devices);
    let (resource, points) = written(write::inventory(&host, &devices, NOW));
    assert_eq!((resource["host.id"].as_str(), resource["tokenwatt.chips"].as_str()), ("i-1", "2"));
    let of = |name: &str| {
        let points = points.iter().filter(|point| point.0 == name);
        points.map(|point| (point.1["hw.id"].as_str(), point.3)).collect::<Vec<_>>()
    };
    assert_eq!(of("hw.gpu.memory.limit"), [("neuron0", 32.0)], "what is unknown is not 0");
    assert_eq!(of("neuron.device.cores"), [("neuron0", 2.0), ("neuron1", 2.0)]);
    assert_eq!(of("neuron.device.processes"), [("neuron0", 2.0), ("neuron1", 0.0)]);
    assert!(write::inventory(&host, &[], NOW).is_none());
}

fn sysfs(devices: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (device, line) in devices {
        let power = directory.path().join(device).join("stats/power");
        std::fs::create_dir_all(&power).unwrap();
        std::fs::write(power.join("utilization"), line).unwrap();
    }
    directory
}

/// Percent becomes watts between the two figures somebody gave; no data is no power, and a minute is read once.
#[test]
fn power_comes_from_percent_and_configured_watts() {
    let minute = NOW / 1_000_000_000;
    let valid = format!("POWER_STATUS_VALID,{minute},0.00,60.00,25.00\n");
    let none = format!("POWER_STATUS_NO_DATA,{minute},0.00,0.00,0.00\n");
    let directory = sysfs(&[("neuron0", &valid), ("neuron1", &none), ("neuron2", "odd"), ("other", &valid)]);
    std::fs::create_dir(directory.path().join("neuron3")).unwrap();
    let settings = Power {
        sysfs: directory.path().to_owned(),
        max_watts: Some(150.0),
        idle_watts: Some(50.0),
        ..Power::default()
    };
    let mut readings = Readings::new(&settings).unwrap();
    let found = readings.read();
    assert_eq!((found.watts.len(), found.faults), (1, 1));
    let (_, points) = written(write::power(&Host::default(), &found.watts));
    let [(name, attributes, _, watts)] = &points[..] else { panic!("one device") };
    assert_eq!((name.as_str(), *watts), ("hw.power", 75.0));
    for (key, expected) in [
        ("hw.id", "neuron0"),
        ("tokenwatt.energy_method", "percent_of_max"),
        ("tokenwatt.boundary", "chip"),
        ("tokenwatt.confidence", "assumed"),
    ] {
        assert_eq!(attributes[key], expected);
    }
    assert!(readings.read().watts.is_empty(), "the same minute");
    assert!(Readings::new(&Power { max_watts: None, ..settings.clone() }).is_none());
    let absent = Power { sysfs: directory.path().join("absent"), ..settings };
    assert_eq!(Readings::new(&absent).unwrap().read(), power::Found::default());
}

/// A program's lines are read as they come, too long ones are skipped, and its end is its end.
#[tokio::test]
async fn a_program_is_read_line_by_line() {
    let script = "printf 'one\\n'; head -c 2000000 /dev/zero | tr '\\0' x; printf '\\ntwo\\nunended'";
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let mut source = Source::open(&NeuronMonitor { command, ..NeuronMonitor::default() }).await.unwrap();
    assert_eq!(source.next().await.unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(source.next().await.unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(source.next().await.unwrap(), None);
    let command = vec!["/nowhere/neuron-monitor".to_owned()];
    assert!(Source::open(&NeuronMonitor { command, ..NeuronMonitor::default() }).await.is_err());
}

#[test]
fn settings_are_checked() {
    let faults = |settings: NeuronMonitor| {
        let mut faults = Vec::new();
        settings.validate(&mut faults);
        faults.len()
    };
    assert_eq!(faults(NeuronMonitor::default()), 0);
    let both = NeuronMonitor { command: vec!["a".to_owned()], input: Some("b".into()), ..NeuronMonitor::default() };
    assert_eq!(faults(both), 1);
    let power = Power { max_watts: Some(10.0), idle_watts: Some(20.0), ..Power::default() };
    assert_eq!(faults(NeuronMonitor { power, ..NeuronMonitor::default() }), 1);
}
