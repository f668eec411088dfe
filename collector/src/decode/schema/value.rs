//! Values, attributes, scopes and resources: what all signals have in common.

use super::{Kind, Message, choice, many, one, optional};

/// `AnyValue`.
pub static ANY_VALUE: Message = Message {
    fields: &[
        choice(1, "stringValue", Kind::Text),
        choice(3, "intValue", Kind::Int64),
        choice(4, "doubleValue", Kind::Double),
        choice(2, "boolValue", Kind::Bool),
        choice(5, "arrayValue", Kind::Message(&ARRAY_VALUE)),
        choice(6, "kvlistValue", Kind::Message(&KEY_VALUE_LIST)),
        choice(7, "bytesValue", Kind::Bytes),
    ],
};

/// `ArrayValue`.
static ARRAY_VALUE: Message = Message { fields: &[many(1, "values", Kind::Message(&ANY_VALUE))] };

/// `KeyValueList`.
static KEY_VALUE_LIST: Message = Message { fields: &[many(1, "values", Kind::Message(&KEY_VALUE))] };

/// `KeyValue`.
pub static KEY_VALUE: Message =
    Message { fields: &[one(1, "key", Kind::Text), optional(2, "value", Kind::Message(&ANY_VALUE))] };

/// `InstrumentationScope`.
pub static SCOPE: Message = Message {
    fields: &[
        one(1, "name", Kind::Text),
        one(2, "version", Kind::Text),
        many(3, "attributes", Kind::Message(&KEY_VALUE)),
        one(4, "droppedAttributesCount", Kind::Uint32),
    ],
};

/// `EntityRef`.
pub static ENTITY_REF: Message = Message {
    fields: &[
        one(1, "schemaUrl", Kind::Text),
        one(2, "type", Kind::Text),
        many(3, "idKeys", Kind::Text),
        many(4, "descriptionKeys", Kind::Text),
    ],
};

/// `Resource`.
pub static RESOURCE: Message = Message {
    fields: &[
        many(1, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "droppedAttributesCount", Kind::Uint32),
        many(3, "entityRefs", Kind::Message(&ENTITY_REF)),
    ],
};
