//! Our types in PostgreSQL's terms.
//!
//! | here | there |
//! |---|---|
//! | times with a zone | timestamptz |
//! | DECIMAL, UInt64 | numeric |
//! | lists of simple values | arrays |
//! | maps, structures, lists of lists | jsonb |
//! | what PostgreSQL has no type for | text, as it is printed |

use arrow::datatypes::DataType;
use pgwire::api::Type;

/// The type of a column.
pub(crate) fn kind(of: &DataType) -> Type {
    match of {
        DataType::Boolean => Type::BOOL,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => Type::INT2,
        DataType::UInt16 | DataType::Int32 => Type::INT4,
        DataType::UInt32 | DataType::Int64 => Type::INT8,
        DataType::Float16 | DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Type::BYTEA,
        DataType::Date32 | DataType::Date64 => Type::DATE,
        DataType::Time32(_) | DataType::Time64(_) => Type::TIME,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        DataType::Dictionary(_, values) => kind(values),
        DataType::RunEndEncoded(_, values) => kind(values.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => array_of(&kind(item.data_type())).unwrap_or(Type::JSONB),
        DataType::Map(..) | DataType::Struct(_) | DataType::Union(..) => Type::JSONB,
        _ => Type::TEXT,
    }
}

const ARRAYS: [(Type, Type); 14] = [
    (Type::BOOL, Type::BOOL_ARRAY),
    (Type::INT2, Type::INT2_ARRAY),
    (Type::INT4, Type::INT4_ARRAY),
    (Type::INT8, Type::INT8_ARRAY),
    (Type::FLOAT4, Type::FLOAT4_ARRAY),
    (Type::FLOAT8, Type::FLOAT8_ARRAY),
    (Type::NUMERIC, Type::NUMERIC_ARRAY),
    (Type::BYTEA, Type::BYTEA_ARRAY),
    (Type::DATE, Type::DATE_ARRAY),
    (Type::TIME, Type::TIME_ARRAY),
    (Type::TIMESTAMP, Type::TIMESTAMP_ARRAY),
    (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
    (Type::INTERVAL, Type::INTERVAL_ARRAY),
    (Type::TEXT, Type::TEXT_ARRAY),
];

fn array_of(item: &Type) -> Option<Type> {
    ARRAYS.iter().find(|(one, _)| one == item).map(|(_, many)| many.clone())
}

/// The type of an array's items; `None` for what is no array we write.
pub(crate) fn item_of(array: &Type) -> Option<Type> {
    let known = ARRAYS.iter().find(|(_, many)| many == array).map(|(one, _)| one.clone());
    known.or_else(|| (*array == Type::VARCHAR_ARRAY).then_some(Type::TEXT))
}

/// Bytes of a value, -1 where they vary.
pub(crate) fn size(of: &Type) -> i16 {
    match *of {
        Type::BOOL => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::OID | Type::FLOAT4 | Type::DATE => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL => 16,
        _ => -1,
    }
}

/// Precision and scale of a decimal as PostgreSQL packs them, -1 for every other type.
pub(crate) fn modifier(of: &DataType) -> i32 {
    match of {
        DataType::Decimal128(precision, scale) if (0..=38).contains(scale) => {
            ((i32::from(*precision) << 16) | i32::from(*scale)) + 4
        }
        _ => -1,
    }
}
