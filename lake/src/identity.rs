//! What a lake is known by, wherever it lies and by whatever name it is reached.

use object_store::{ObjectStore, ObjectStoreExt, PutMode, path::Path};
use service::{Error, Result};
use uuid::Uuid;

use crate::lake::Lake;
use crate::store::failure;

impl Lake {
    /// Its id, made by whoever asks first. It moves with the lake's objects, and a new lake in the same place has another.
    ///
    /// # Errors
    /// `Corrupt` if what lies there is no id, `Denied`, `Unavailable`.
    pub async fn id(&self) -> Result<String> {
        let (store, path) = (self.store(), Path::from("_tokenwatt/id"));
        let made = Uuid::new_v4().simple().to_string();
        for _ in 0..2 {
            match store.get(&path).await {
                Ok(found) => {
                    let bytes = found.bytes().await.map_err(|error| failure(format!("read {path}"), error))?;
                    let text = String::from_utf8_lossy(&bytes);
                    let id = Uuid::parse_str(text.trim()).map_err(|error| {
                        Error::corrupt(format!("{path} of the lake holds no id")).with_source(error)
                    })?;
                    return Ok(id.simple().to_string());
                }
                Err(object_store::Error::NotFound { .. }) => self.writable()?,
                Err(error) => return Err(failure(format!("read {path}"), error)),
            }
            match store.put_opts(&path, format!("{made}\n").into(), PutMode::Create.into()).await {
                Ok(_) => return Ok(made),
                // Another process was first.
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {}
                Err(error) => return Err(failure(format!("write {path}"), error)),
            }
        }
        Err(Error::unavailable(format!("{path} of the lake is written and removed by turns")))
    }
}
