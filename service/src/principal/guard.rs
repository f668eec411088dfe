//! Routes that only principals of one role may use.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};

use super::{Principal, Principals, Role};
use crate::error::{Error, Kind};
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

/// Handlers behind the guard find out who asks: `Extension<Arc<Principal>>`.
async fn pass(State((principals, role)): State<(Principals, Role)>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|info| &info.0);
    match principals.identify(role, request.headers(), peer) {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            next.run(request).await
        }
        Err(error) => {
            let mut response = error.into_response();
            if response.status() == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
            }
            response
        }
    }
}

/// Lets only readers that see everything on: for routes behind [`require`] whose answers are the same for all.
pub fn require_everything(router: Router) -> Router {
    router.layer(from_fn(pass_everything))
}

async fn pass_everything(principal: Option<Extension<Arc<Principal>>>, request: Request, next: Next) -> Response {
    match principal {
        Some(Extension(principal)) if !principal.sees_everything() => {
            let message = format!("`{}` does not see everything, which this page shows", principal.name);
            let hint = "ask over SQL, which answers with what this reader may see: POST /api/v1/sql";
            Error::new(Kind::Denied, message).with_hint(hint).into_response()
        }
        _ => next.run(request).await,
    }
}
