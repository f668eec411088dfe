//! The lake on a real S3 endpoint that checks signatures.
//!
//! The endpoint tests If-None-Match before it writes, not while it does, so races between writers are tested elsewhere.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::aws::AmazonS3Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::{DeleteObjectInput, DeleteObjectOutput, PutObjectInput, PutObjectOutput};
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Request, S3Response, S3Result};
use s3s_fs::FileSystem;
use service::{Deps, Kind, Result};
use telemetry::table::TOKENS;
use tokio::net::TcpListener;

use super::{Access, Lake, Store};
use crate::lease::{Lease, Standing};
use crate::sample::{DATE, Hand, token};
use crate::{Entry, Outcome, store};

async fn serve(root: &Path) -> SocketAddr {
    std::fs::create_dir_all(root.join("bucket")).expect("a bucket");
    serve_by(FileSystem::new(root).expect("a root")).await
}

async fn serve_by(s3: impl S3) -> SocketAddr {
    let mut service = S3ServiceBuilder::new(s3);
    service.set_auth(SimpleAuth::from_single("key", "secret"));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    address
}

async fn open(address: SocketAddr, place: &str, secret: &str) -> Result<Lake> {
    let builder = AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_access_key_id("key")
        .with_secret_access_key(secret);
    let store: Store = store::s3(place, builder)?.ready(Access::Write).await?;
    let lake = Lake::on(store, &Deps::system(), Access::Write);
    lake.check().await.map(|()| lake)
}

/// An endpoint that knows nothing of If-None-Match.
struct Careless(FileSystem);

#[async_trait]
impl S3 for Careless {
    async fn put_object(&self, mut request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        request.input.if_none_match = None;
        self.0.put_object(request).await
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.0.delete_object(request).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_overwrites_what_must_not_exist_is_refused_at_start() {
    let root = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(root.path().join("bucket")).expect("a bucket");
    let address = serve_by(Careless(FileSystem::new(root.path()).expect("a root"))).await;
    let refused = open(address, "s3://bucket/lake", "secret").await.err().expect("two writers would lose data");
    assert_eq!(refused.kind(), Kind::Conflict);
    assert!(refused.hint().is_some_and(|hint| hint.contains("If-None-Match")), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_in_a_bucket_has_one_holder_and_can_be_given_back() {
    let root = tempfile::tempdir().expect("a folder");
    let address = serve(root.path()).await;
    let lakes = [(); 2].map(|()| open(address, "s3://bucket/lake", "secret"));
    let [a, b] = lakes;
    let (a, b) = (a.await.expect("a lake"), b.await.expect("a lake"));
    let lease = |lake: &Lake, name: &str| {
        Lease::new(lake.store(), "job", Some(name.to_owned()), true, Arc::new(Hand::default()))
    };
    let (mut first, mut second) = (lease(&a, "http://a"), lease(&b, "http://b"));
    for _ in 0..3 {
        assert_eq!(first.tend().await.expect("held"), Standing::Mine);
        let other = Standing::Other { address: Some("http://a".to_owned()) };
        assert_eq!(second.tend().await.expect("seen"), other);
    }
    first.release().await.expect("given back");
    assert_eq!(second.tend().await.expect("taken"), Standing::Mine);
}

async fn commit(lake: &Lake, from: u64) -> Result<Outcome> {
    let add = lake.write(&TOKENS, DATE, &format!("j-{from}.parquet"), &[token(0)]).await?;
    lake.commit(Entry { journal: "j".to_owned(), table: "tokens", from, to: from + 1, adds: vec![add] }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lake_in_a_bucket_is_as_good_as_one_in_a_folder() {
    let root = tempfile::tempdir().expect("a folder");
    let address = serve(root.path()).await;
    let lake = open(address, "s3://bucket/a/lake", "secret").await.expect("a lake");
    assert_eq!(lake.url().as_str(), "s3://bucket/a/lake/");
    for frame in 0..3 {
        let version = i64::try_from(frame).expect("small");
        assert_eq!(commit(&lake, frame).await.expect("committed"), Outcome::Committed { version });
    }
    lake.checkpoint("tokens").await.expect("a checkpoint");
    commit(&lake, 3).await.expect("committed");
    let log = root.path().join("bucket/a/lake/tokens/_delta_log");
    assert!(log.join("00000000000000000002.checkpoint.parquet").exists());
    std::fs::remove_file(log.join("00000000000000000000.json")).expect("only the checkpoint knows of it now");

    let fresh = open(address, "s3://bucket/a/lake/", "secret").await.expect("a lake");
    let snapshot = fresh.snapshot("tokens", None).await.expect("readable");
    assert_eq!((snapshot.version, snapshot.rows()), (3, Some(4)));
    assert_eq!(commit(&fresh, 2).await.expect("the same bytes again"), Outcome::Through(4));
    assert_eq!(fresh.through(&TOKENS, "j").await.expect("readable"), Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_is_named_with_what_to_do() {
    let root = tempfile::tempdir().expect("a folder");
    let address = serve(root.path()).await;
    let closed = open(address, "s3://bucket/lake", "wrong").await.err().expect("a wrong secret");
    assert!(closed.kind() == Kind::Denied && closed.hint().is_some(), "{closed:?}");
}
