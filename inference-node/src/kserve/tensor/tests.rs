use super::super::wire::TensorContents;
use super::*;

fn tensor(name: &str, datatype: &str, contents: Option<TensorContents>) -> Tensor {
    Tensor { name: name.to_owned(), datatype: datatype.to_owned(), shape: vec![1], contents }
}

/// A request with raw contents, as tritonclient sends it.
fn raw(inputs: &[(&str, &str, &[u8])]) -> InferRequest {
    InferRequest {
        model_name: "m".to_owned(),
        id: "7".to_owned(),
        inputs: inputs.iter().map(|(name, datatype, _)| tensor(name, datatype, None)).collect(),
        raw_input_contents: inputs.iter().map(|(.., value)| value.to_vec()).collect(),
        ..InferRequest::default()
    }
}

/// Settings are read from JSON whose numbers and flags may be text, and from parameters, which they outdo.
#[test]
fn settings_are_options() {
    let settings = bytes(r#"{"temperature": "0.5", "max_tokens": 9, "ignore_eos": "True", "stop": "1"}"#);
    let mut request = raw(&[
        ("text_input", "BYTES", &bytes("hé")),
        ("stream", "BOOL", &[1]),
        ("sampling_parameters", "BYTES", &settings),
    ]);
    let value = |value| Parameter { value: Some(value) };
    request.parameters.insert("top_p".to_owned(), value(ParameterValue::Double(0.9)));
    request.parameters.insert("max_tokens".to_owned(), value(ParameterValue::Int64(3)));
    request.parameters.insert("triton_enable_empty_final_response".to_owned(), value(ParameterValue::Bool(true)));
    let ask = Ask::read(&request).unwrap();
    let options = &ask.completion.options;
    assert_eq!((options.temperature, options.top_p, options.max_tokens), (Some(0.5), Some(0.9), Some(9)));
    assert_eq!((options.ignore_eos, options.stream), (Some(true), Some(true)));
    assert_eq!(options.stop.as_ref().unwrap().texts(), ["1"]);
    assert_eq!(ask.completion.prompt, telemetry::openai::Prompt::Text("hé".to_owned()));
    assert_eq!((ask.stream, ask.prefix.as_str(), ask.model.as_str()), (true, "", "m"));
}

/// A whole answer begins with the prompt unless that is switched off, as with Triton's vLLM backend; values may also lie in
/// the tensors themselves.
#[test]
fn prompts_come_back_unless_told_otherwise() {
    let contents = |bools: &[bool], texts: &[&str]| TensorContents {
        bools: bools.to_vec(),
        bytes: texts.iter().map(|text| text.as_bytes().to_vec()).collect(),
    };
    let mut request = raw(&[]);
    request.inputs.push(tensor("text_input", "BYTES", Some(contents(&[], &["a"]))));
    assert_eq!(Ask::read(&request).unwrap().prefix, "a");
    request.inputs.push(tensor("exclude_input_in_output", "BOOL", Some(contents(&[true], &[]))));
    assert_eq!(Ask::read(&request).unwrap().prefix, "");
}

/// What is wrong is named.
#[test]
fn faults_name_the_tensor() {
    let text = bytes("a");
    let mut old = raw(&[("text_input", "BYTES", &text)]);
    old.model_version = "2".to_owned();
    let mut short = raw(&[("text_input", "BYTES", &text), ("stream", "BOOL", &[0])]);
    short.raw_input_contents.pop();
    let n = bytes(r#"{"n": 2}"#);
    for (request, named) in [
        (raw(&[]), "text_input"),
        (raw(&[("text_input", "BYTES", b"a")]), "text_input"),
        (raw(&[("text_input", "BYTES", &[2, 0, 0, 0, b'a'])]), "text_input"),
        (raw(&[("text_input", "BYTES", &[1, 0, 0, 0, 0xFF])]), "text_input"),
        (raw(&[("text_input", "INT32", &text)]), "text_input"),
        (raw(&[("text_input", "BYTES", &text), ("image", "BYTES", &text)]), "image"),
        (raw(&[("text_input", "BYTES", &text), ("stream", "BOOL", &[])]), "stream"),
        (raw(&[("text_input", "BYTES", &text), ("sampling_parameters", "BYTES", &text)]), "sampling_parameters"),
        (raw(&[("text_input", "BYTES", &text), ("sampling_parameters", "BYTES", &n)]), "n over this protocol"),
        (
            raw(&[("text_input", "BYTES", &text), ("stream", "BOOL", &[1]), ("exclude_input_in_output", "BOOL", &[0])]),
            "exclude",
        ),
        (old, "version 2"),
        (short, "stream"),
    ] {
        let fault = Ask::read(&request).unwrap_err();
        assert!(fault.message().contains(named), "{named}: {}", fault.message());
    }
}

/// Outputs are those that were asked for, raw, in order, and the last answer says that it is.
#[test]
fn answers_are_tensors() {
    let text = bytes("a");
    let ask = Ask::read(&raw(&[
        ("text_input", "BYTES", &text),
        ("return_finish_reason", "BOOL", &[1]),
        ("return_num_output_tokens", "BOOL", &[1]),
    ]));
    let ask = ask.unwrap();
    let last = ask.response(Piece { text: "é".to_owned(), reason: Some("stop"), input_tokens: 4, output_tokens: 2 });
    let names: Vec<&str> = last.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["text_output", "finish_reason", "num_output_tokens"]);
    assert_eq!(last.raw_output_contents, [bytes("é"), bytes("stop"), vec![2, 0, 0, 0]]);
    assert_eq!(last.parameters["triton_final_response"].value, Some(ParameterValue::Bool(true)));
    assert_eq!((last.id.as_str(), last.model_name.as_str()), ("7", "m"));
    let first = ask.response(Piece { text: "x".to_owned(), ..Piece::default() });
    assert_eq!(first.parameters["triton_final_response"].value, Some(ParameterValue::Bool(false)));
    assert_eq!(first.raw_output_contents[1], bytes("None"));
}
