//! `tokenwatt_cancel(id)`: stops a running query, for clients that speak nothing but SQL.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    common::{Result, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};

use crate::{execute::running::Registry, reader::Reader};

/// The function of one reader's session: whether the query of that number was told to stop. One that does not run, or that the
/// reader may not see, was not.
pub(crate) fn function(running: &Arc<Registry>, reader: &Arc<Reader>) -> Arc<ScalarUDF> {
    // Volatile: never computed while the statement is planned, and once for every row.
    let signature = Signature::one_of(
        vec![TypeSignature::Exact(vec![DataType::Int64]), TypeSignature::Exact(vec![DataType::Utf8])],
        Volatility::Volatile,
    );
    let cancel = Cancel { running: Arc::clone(running), reader: Arc::clone(reader), signature };
    Arc::new(ScalarUDF::from(cancel))
}

struct Cancel {
    running: Arc<Registry>,
    reader: Arc<Reader>,
    signature: Signature,
}

impl Cancel {
    fn cancel(&self, id: Option<i64>) -> bool {
        id.and_then(|id| u64::try_from(id).ok()).is_some_and(|id| self.running.cancel(id, &self.reader))
    }
}

impl ScalarUDFImpl for Cancel {
    fn name(&self) -> &'static str {
        "tokenwatt_cancel"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [id] = args.args.as_slice() else { return exec_err!("tokenwatt_cancel takes one argument") };
        // What is no number is nobody's.
        let ids: ArrayRef = cast(&id.to_array(args.number_rows)?, &DataType::Int64)?;
        let told = ids.as_primitive::<Int64Type>().iter().map(|id| Some(self.cancel(id)));
        Ok(ColumnarValue::Array(Arc::new(told.collect::<BooleanArray>())))
    }
}

impl PartialEq for Cancel {
    fn eq(&self, other: &Self) -> bool {
        self.reader == other.reader
    }
}

impl Eq for Cancel {}

impl Hash for Cancel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.reader.name().hash(state);
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancel(for {:?})", self.reader)
    }
}
