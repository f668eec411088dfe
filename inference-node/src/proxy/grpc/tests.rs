use super::frame::{Frames, Held, Part};
use super::message::Answer;

fn bytes(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()], message].concat()
}

/// An answer of a decoupled model as Triton writes it: raw contents beside the outputs' names.
fn answer(id: &[u8], text: &[u8], is_last: bool) -> Vec<u8> {
    let raw = [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text].concat();
    let last = [bytes(1, b"triton_final_response"), bytes(2, &[8, u8::from(is_last)])].concat();
    let parts = [
        bytes(1, b"llama"),
        bytes(3, id),
        bytes(4, &last),
        bytes(5, &[bytes(1, b"num_output_tokens"), bytes(2, b"UINT32")].concat()),
        bytes(5, &[bytes(1, b"text_output"), bytes(2, b"BYTES")].concat()),
        bytes(6, &3_u32.to_le_bytes()),
        bytes(6, &raw),
    ];
    parts.concat()
}

#[test]
fn an_answer_is_read() {
    let message = answer(b"7", b"hello", true);
    let read = Answer::read(&message).unwrap();
    assert_eq!((read.id, read.is_last, read.output.model), ("7", true, Some("llama")));
    assert_eq!((read.output.text_bytes, read.output.tokens, read.output.input_tokens), (Some(5), Some(3), None));
    assert!(!Answer::read(&answer(b"", b"", false)).unwrap().is_last);
    let inside = bytes(5, &[bytes(1, b"text_output"), bytes(5, &[bytes(8, b"ab"), bytes(8, b"c")].concat())].concat());
    assert_eq!(Answer::read(&inside).unwrap().output.text_bytes, Some(3));
}

/// Messages cut short or changed at any byte are read or not, and never a panic.
#[test]
fn broken_messages() {
    let message = answer(b"7", b"hello", true);
    for at in 0..message.len() {
        let _ = Answer::read(&message[..at]);
        for mark in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut broken = message.clone();
            broken[at] = mark;
            let _ = Answer::read(&broken);
        }
    }
    assert!(Answer::read(&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]).is_none());
}

/// Messages come out whole wherever they are cut; compressed and very long ones are counted, not read.
#[test]
fn frames_are_put_together() {
    let long = [&[0][..], &(2_u32 << 20).to_be_bytes(), &vec![1; 2 << 20]].concat();
    let mut squeezed = framed(b"gz");
    squeezed[0] = 1;
    let all = [framed(b"one"), squeezed, framed(b""), long, framed(b"two")].concat();
    for step in [1, 7, 1 << 10, all.len()] {
        let (mut frames, mut seen) = (Frames::default(), Vec::new());
        for part in all.chunks(step) {
            frames.read(part, |message| seen.push(message.map(<[u8]>::to_vec)));
        }
        assert_eq!(seen, [Some(b"one".to_vec()), None, Some(Vec::new()), None, Some(b"two".to_vec())], "{step}");
        assert!(frames.pending.is_empty());
    }
}

/// Requests are let go whole and one by one; one that is too long passes in pieces, and what is cut short at the end is left.
#[test]
fn requests_are_held() {
    let long = [&[0][..], &(2_u32 << 20).to_be_bytes(), &vec![1; 2 << 20]].concat();
    let all = [framed(b"one"), long.clone(), framed(b"two"), vec![0, 0]].concat();
    for step in [1 << 10, 999_983, all.len()] {
        let (mut held, mut whole, mut pieces, mut longs) = (Held::default(), Vec::new(), 0, 0);
        for part in all.chunks(step) {
            held.push(part);
            while let Some(part) = held.next() {
                match part {
                    Part::Message(framed) => whole.push(framed.to_vec()),
                    Part::Long => longs += 1,
                    Part::Piece(piece) => pieces += piece.len(),
                }
            }
        }
        assert_eq!((whole, pieces, longs), (vec![framed(b"one"), framed(b"two")], long.len(), 1), "{step}");
        assert_eq!(held.rest().to_vec(), [0, 0]);
    }
}
