//! A directory served as S3 on loopback: signatures are checked and If-None-Match is honoured, as the lake needs it.

use std::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tower::Service;

/// Its only bucket and its only user.
pub(crate) const BUCKET: &str = "fleet";
pub(crate) const ACCESS_KEY: &str = "TESTKEY";
pub(crate) const SECRET_KEY: &str = "test-secret";

/// Serves `root` on a free port until the runtime ends; every request is held up for `delay` before it is looked at.
pub(crate) async fn serve(root: &Path, delay: Duration) -> SocketAddr {
    std::fs::create_dir_all(root.join(BUCKET)).expect("create the bucket");
    let mut service = S3ServiceBuilder::new(FileSystem::new(root).expect("open the root"));
    service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // Else answers wait for the client's delayed acknowledgements, which is not the delay that was asked for.
            let _ = socket.set_nodelay(true);
            let slow = TowerToHyperService::new(Slow { inner: service.clone(), delay });
            tokio::spawn(async move {
                let http = Builder::new(TokioExecutor::new());
                // A client that hangs up is no fault of the endpoint.
                let _ = http.serve_connection(TokioIo::new(socket), slow).await;
            });
        }
    });
    address
}

/// A service that is far away.
#[derive(Clone)]
struct Slow<S> {
    inner: S,
    delay: Duration,
}

impl<R, S> Service<R> for Slow<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (answer, delay) = (self.inner.call(request), self.delay);
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            answer.await
        })
    }
}

/// What a client must have in its environment.
pub(crate) fn environment(address: SocketAddr, secret: &str) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ]
}
