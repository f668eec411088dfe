//! Routes that only principals of one role may use.

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use super::{Principals, Role};
use crate::tls::Peer;

/// Makes a browser ask its user for name and password; the password is the token.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"tokenwatt\", charset=\"UTF-8\"");

/// Puts a guard before all routes of `router`, its fallback included: only principals of that role pass.
pub fn require(router: Router, principals: &Principals, role: Role) -> Router {
    if principals.is_open() {
        return router;
    }
    router.layer(from_fn_with_state((principals.clone(), role), pass))
}

async fn pass(State((principals, role)): State<(Principals, Role)>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|info| &info.0);
    match principals.identify(role, request.headers(), peer) {
        Ok(_) => next.run(request).await,
        Err(error) => {
            let mut response = error.into_response();
            if response.status() == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
            }
            response
        }
    }
}
