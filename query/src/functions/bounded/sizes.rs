//! Bytes that values take where they are written out, row by row: what rows share is counted for each that shows it.

use std::{cmp::max, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Int16Type, Int32Type, Int64Type, RunEndIndexType},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::ColumnarValue,
};

/// Bytes of each row of an argument.
pub(super) enum Sizes {
    Same(u64),
    Each(Vec<u64>),
}

impl Sizes {
    pub(super) fn of(argument: &ColumnarValue) -> Result<Sizes> {
        match argument {
            ColumnarValue::Scalar(scalar) => Ok(Sizes::Same(size_of_scalar(scalar)?)),
            ColumnarValue::Array(array) => Sizes::of_array(array),
        }
    }

    /// The values' own bytes; what views share is counted for each that shows it.
    pub(super) fn of_array(array: &ArrayRef) -> Result<Sizes> {
        Ok(match array.data_type() {
            DataType::Utf8 => Sizes::between(array.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => Sizes::between(array.as_string::<i64>().value_offsets()),
            DataType::Binary => Sizes::between(array.as_binary::<i32>().value_offsets()),
            DataType::LargeBinary => Sizes::between(array.as_binary::<i64>().value_offsets()),
            DataType::Utf8View => Sizes::Each(array.as_string_view().lengths().map(u64::from).collect()),
            DataType::BinaryView => Sizes::Each(array.as_binary_view().lengths().map(u64::from).collect()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Sizes::of_lists(list.value_offsets(), list.values())?
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Sizes::of_lists(list.value_offsets(), list.values())?
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                Sizes::of_lists(map.value_offsets(), &entries)?
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                Sizes::of_views(list.value_offsets(), list.value_sizes(), list.values())?
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                Sizes::of_views(list.value_offsets(), list.value_sizes(), list.values())?
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or(0);
                let ends: Vec<i64> = (0..=array.len()).map(|row| (row * length) as i64).collect();
                Sizes::of_lists(&ends, array.as_fixed_size_list().values())?
            }
            DataType::FixedSizeBinary(width) => Sizes::Same(u64::try_from(*width).unwrap_or(0)),
            DataType::Dictionary(..) => Sizes::of_dictionary(array)?,
            DataType::RunEndEncoded(..) => Sizes::of_runs(array)?,
            DataType::Struct(_) => Sizes::of_structs(array)?,
            kind => Sizes::Same(kind.primitive_width().map_or(16, |width| width as u64)),
        })
    }

    fn of_structs(array: &ArrayRef) -> Result<Sizes> {
        let columns = array.as_struct().columns().iter().map(Sizes::of_array).collect::<Result<Vec<_>>>()?;
        Ok(Sizes::Each((0..array.len()).map(|row| columns.iter().map(|column| column.at(row)).sum()).collect()))
    }

    /// What the key shows is counted for each row that has it.
    fn of_dictionary(array: &ArrayRef) -> Result<Sizes> {
        let dictionary = array.as_any_dictionary();
        if dictionary.values().is_empty() {
            return Ok(Sizes::Same(0));
        }
        let values = Sizes::of_array(dictionary.values())?;
        Ok(Sizes::Each(dictionary.normalized_keys().into_iter().map(|key| values.at(key)).collect()))
    }

    /// A run's value is counted for each row of the run.
    fn of_runs(array: &ArrayRef) -> Result<Sizes> {
        fn each<R: RunEndIndexType>(array: &ArrayRef) -> Result<Option<Sizes>> {
            let Some(runs) = array.as_run_opt::<R>() else { return Ok(None) };
            let values = Sizes::of_array(runs.values())?;
            Ok(Some(Sizes::Each((0..runs.len()).map(|row| values.at(runs.get_physical_index(row))).collect())))
        }
        let sizes = match each::<Int16Type>(array)? {
            Some(sizes) => Some(sizes),
            None => each::<Int32Type>(array)?,
        };
        Ok(match sizes {
            Some(sizes) => sizes,
            None => each::<Int64Type>(array)?.unwrap_or(Sizes::Same(0)),
        })
    }

    /// Lists that may show the same elements.
    fn of_views<O: Into<i64> + Copy>(offsets: &[O], lengths: &[O], values: &ArrayRef) -> Result<Sizes> {
        let elements = Sizes::of_array(values)?;
        let list = |(offset, length): (&O, &O)| -> u64 {
            let (from, length): (i64, i64) = ((*offset).into(), (*length).into());
            let (Ok(from), Ok(length)) = (usize::try_from(from), usize::try_from(length)) else { return 0 };
            (from..from + length).map(|at| max(1, elements.at(at))).sum()
        };
        Ok(Sizes::Each(offsets.iter().zip(lengths).map(list).collect()))
    }

    fn between<O: Into<i64> + Copy>(offsets: &[O]) -> Sizes {
        let length = |pair: &[O]| u64::try_from(pair[1].into() - pair[0].into()).unwrap_or(0);
        Sizes::Each(offsets.windows(2).map(length).collect())
    }

    /// A list is as large as its elements, and each of those at least a byte.
    fn of_lists<O: Into<i64> + Copy>(offsets: &[O], values: &ArrayRef) -> Result<Sizes> {
        let elements = Sizes::of_array(values)?;
        let list = |pair: &[O]| -> u64 {
            let (from, to) = (pair[0].into(), pair[1].into());
            match (&elements, usize::try_from(from), usize::try_from(to)) {
                (Sizes::Same(size), ..) => u64::try_from(to - from).unwrap_or(0).saturating_mul(max(1, *size)),
                (Sizes::Each(sizes), Ok(from), Ok(to)) => sizes[from..to].iter().map(|size| max(1, *size)).sum(),
                _ => 0,
            }
        };
        Ok(Sizes::Each(offsets.windows(2).map(list).collect()))
    }

    pub(super) fn at(&self, row: usize) -> u64 {
        match self {
            Sizes::Same(size) => *size,
            Sizes::Each(sizes) => sizes.get(row).copied().unwrap_or(0),
        }
    }

    pub(super) fn sum(&self, rows: usize) -> u64 {
        match self {
            Sizes::Same(size) => size.saturating_mul(rows as u64),
            Sizes::Each(sizes) => sizes.iter().sum(),
        }
    }
}

/// Bytes of all values together; what views share is counted for each that shows it.
pub(crate) fn size_of_column(array: &ArrayRef) -> u64 {
    let between =
        |from: i64, to: i64| usize::try_from(from).ok().zip(usize::try_from(to - from).ok()).unwrap_or((0, 0));
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, count) = between(list.value_offsets()[0].into(), list.value_offsets()[list.len()].into());
            size_of_column(&list.values().slice(from, count))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, count) = between(map.value_offsets()[0].into(), map.value_offsets()[map.len()].into());
            map.entries().columns().iter().map(|column| size_of_column(&column.slice(from, count))).sum()
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(size_of_column).sum(),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => Sizes::of_array(array).map_or(u64::MAX, |sizes| sizes.sum(array.len())),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()) as u64,
    }
}

/// Bytes of a constant.
pub(crate) fn size_of_scalar(scalar: &ScalarValue) -> Result<u64> {
    match scalar {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            Ok(text.as_ref().map_or(0, |text| text.len() as u64))
        }
        ScalarValue::Dictionary(_, value) => size_of_scalar(value),
        ScalarValue::List(list) => Ok(Sizes::of_array(&(Arc::clone(list) as ArrayRef))?.at(0)),
        other => Ok(other.size() as u64),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{
            Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Int64Array, ListArray,
            RunArray, StringArray, StringViewArray, StructArray,
        },
        compute::{cast, concat},
        datatypes::{DataType, Field, Int32Type, Int64Type},
    };

    use super::{Sizes, size_of_column};

    fn each(array: &ArrayRef) -> Vec<u64> {
        let sizes = Sizes::of_array(array).expect("sizes");
        (0..array.len()).map(|row| sizes.at(row)).collect()
    }

    /// What rows share is there once, and written out once for each of them.
    #[test]
    fn what_is_shared_counts_for_every_row() {
        let text = "x".repeat(500);
        let shared = || Arc::new(StringArray::from(vec![text.as_str(), "y"])) as ArrayRef;
        let keys = arrow::array::Int32Array::from(vec![Some(0), Some(0), Some(1), None]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, shared()));
        assert_eq!(each(&dictionary)[..3], [500, 500, 1]);
        assert!(size_of_column(&dictionary) >= 1_001);
        let ends = arrow::array::Int32Array::from(vec![3, 4]);
        let runs: ArrayRef = Arc::new(
            RunArray::<Int32Type>::try_new(&ends, &StringArray::from(vec![text.as_str(), "y"])).expect("runs"),
        );
        assert_eq!(each(&runs), [500, 500, 500, 1]);
        assert_eq!(each(&runs.slice(2, 2)), [500, 1]);
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![text.as_str()]));
        let views = concat(&[views.as_ref(), views.as_ref()]).expect("views");
        assert_eq!((each(&views), size_of_column(&views)), (vec![500, 500], 1_000));
    }

    #[test]
    fn fixed_and_nested_values_count_their_elements() {
        let binary = FixedSizeBinaryArray::try_from_iter([vec![0_u8; 300], vec![1; 300]].into_iter()).expect("binary");
        assert_eq!(each(&(Arc::new(binary) as ArrayRef)), [300, 300]);
        let numbers = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 40]), None], 40);
        assert_eq!(each(&(Arc::new(numbers) as ArrayRef)), [320, 320]);
        let lists: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 3]), Some(vec![]), None]));
        assert_eq!(each(&lists), [24, 0, 0]);
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        assert_eq!(each(&cast(&lists, &DataType::ListView(item)).expect("views of lists")), [24, 0, 0]);
        let fields = StructArray::try_from(vec![
            ("a", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
            ("b", Arc::new(StringArray::from(vec!["four", ""])) as ArrayRef),
        ]);
        assert_eq!(each(&(Arc::new(fields.expect("a struct")) as ArrayRef)), [12, 8]);
    }
}
