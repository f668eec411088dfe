//! Messages of the KServe v2 inference protocol with Triton's streaming extension, and of gRPC's health protocol, as far as a text
//! model needs them.
//!
//! Written by hand after the published `grpc_service.proto` and `health.proto`: the same names, numbers and types, so that any
//! client of theirs can be answered. Fields left out are skipped when they are read.

use std::collections::HashMap;

/// The service's name on the wire.
pub(crate) const SERVICE: &str = "inference.GRPCInferenceService";

/// A request without fields.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Empty {}

/// Answer of `ServerLive`, `ServerReady` and `ModelReady`, which are alike.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Answered {
    #[prost(bool, tag = "1")]
    pub(crate) yes: bool,
}

/// Request of `ModelReady`, `ModelMetadata` and `ModelConfig`, which are alike.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelName {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// Answer of `ServerMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ServerMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) extensions: Vec<String>,
}

/// Answer of `ModelMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) platform: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<TensorMetadata>,
}

/// Name, type and shape of a tensor; -1 in the shape is any size.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
}

/// Answer of `ModelConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelConfigAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<ModelConfig>,
}

/// Of a model's configuration what a client may act on.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelConfig {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) platform: String,
    #[prost(string, tag = "17")]
    pub(crate) backend: String,
    #[prost(message, optional, tag = "19")]
    pub(crate) model_transaction_policy: Option<TransactionPolicy>,
}

/// Whether a request may have any number of answers.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct TransactionPolicy {
    #[prost(bool, tag = "1")]
    pub(crate) decoupled: bool,
}

/// A value beside the tensors.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Parameter {
    #[prost(oneof = "ParameterValue", tags = "1, 2, 3, 4, 5")]
    pub(crate) value: Option<ParameterValue>,
}

/// One of the types that a parameter can have.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum ParameterValue {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(int64, tag = "2")]
    Int64(i64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

/// Request of `ModelInfer` and `ModelStreamInfer`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferRequest {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, Parameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) inputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub(crate) raw_input_contents: Vec<Vec<u8>>,
}

/// A tensor of a request or an answer; its values lie here or, by position, in the message's raw contents.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Tensor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    pub(crate) contents: Option<TensorContents>,
}

/// Values of the two types that a text model takes.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorContents {
    #[prost(bool, repeated, tag = "1")]
    pub(crate) bools: Vec<bool>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) bytes: Vec<Vec<u8>>,
}

/// Answer of `ModelInfer`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferResponse {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, Parameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(crate) raw_output_contents: Vec<Vec<u8>>,
}

/// One of the answers of `ModelStreamInfer`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StreamInferResponse {
    #[prost(string, tag = "1")]
    pub(crate) error_message: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) infer_response: Option<InferResponse>,
}

/// Request of `grpc.health.v1.Health/Check` and `Watch`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
}

/// Answer of `grpc.health.v1.Health/Check` and `Watch`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct HealthResponse {
    /// [`SERVING`], [`NOT_SERVING`], or [`SERVICE_UNKNOWN`] from `Watch`.
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

/// The service takes calls.
pub(crate) const SERVING: i32 = 1;
/// The service takes no calls.
pub(crate) const NOT_SERVING: i32 = 2;
/// There is no such service.
pub(crate) const SERVICE_UNKNOWN: i32 = 3;
