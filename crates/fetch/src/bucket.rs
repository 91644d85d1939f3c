//! Buckets of object stores that speak S3.
//!
//! Where they are and who asks is read from the variables that other tools for them read: `AWS_ENDPOINT_URL`,
//! `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` and their kin. Without any
//! key requests are not signed, which is how public buckets are read.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};
use reqwest::Url;

use crate::fault::Fault;
use crate::line::{Kind, Line};
use crate::listing::{Listing, RemoteFile, is_wanted};
use crate::signing::Signing;
use crate::{FetchError, Proof, Source};

/// Where buckets are, unless the environment says otherwise.
const ENDPOINT: &str = "https://s3.amazonaws.com";

/// The objects below the prefix of a URL `s3://BUCKET/PREFIX/`.
pub(crate) fn store(
    url: &Url,
    line: Line,
    retry: RetryConfig,
) -> Result<Arc<dyn ObjectStore>, FetchError> {
    let told = |why: String| FetchError::Source { what: url.to_string(), why };
    let store = signed(AmazonS3Builder::from_env())
        .with_url(url.as_str())
        .with_retry(retry)
        .with_http_connector(line)
        .with_crypto_provider(Arc::new(Signing))
        .build()
        .map_err(|error| told(format!("{error}; check the variables that begin with AWS_")))?;
    let prefix = Path::from_url_path(url.path()).map_err(|error| told(error.to_string()))?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

/// A line to where the buckets are.
pub(crate) fn line(stall: Duration) -> Result<Line, FetchError> {
    Line::new(&endpoint(&AmazonS3Builder::from_env())?, None, Kind::Bucket, stall)
}

fn endpoint(builder: &AmazonS3Builder) -> Result<Url, FetchError> {
    let given = |key| builder.get_config_value(&key);
    let text = given(AmazonS3ConfigKey::S3Endpoint).or(given(AmazonS3ConfigKey::Endpoint));
    let text = text.as_deref().unwrap_or(ENDPOINT);
    let parsed = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    parsed.ok_or_else(|| FetchError::Source {
        what: format!("AWS_ENDPOINT_URL is '{text}'"),
        why: format!("it is to be a URL such as {ENDPOINT}"),
    })
}

/// Unsigned where nothing says who asks: the machine's own role, which is looked for in the network, is used
/// only with `AWS_SKIP_SIGNATURE=false`.
fn signed(builder: AmazonS3Builder) -> AmazonS3Builder {
    use AmazonS3ConfigKey as Key;
    let says_who = [
        Key::AccessKeyId,
        Key::SecretAccessKey,
        Key::WebIdentityTokenFile,
        Key::ContainerCredentialsRelativeUri,
        Key::ContainerCredentialsFullUri,
    ];
    let is_known = says_who.iter().any(|key| builder.get_config_value(key).is_some());
    let is_chosen = std::env::var_os("AWS_SKIP_SIGNATURE").is_some();
    if is_known || is_chosen { builder } else { builder.with_skip_signature(true) }
}

/// What a bucket has.
pub(crate) async fn listing(store: &dyn ObjectStore, source: &Source) -> Result<Listing, Fault> {
    let found = store.list_with_delimiter(None).await.map_err(|error| Fault::of(&error))?;
    let files = found.objects.into_iter().map(|object| RemoteFile {
        name: object.location.to_string(),
        bytes: object.size,
        proof: Proof::None,
    });
    let files: Vec<_> = files.filter(|file| is_wanted(&file.name)).collect();
    if !files.iter().any(|file| file.name == "config.json") {
        let why = "there is no config.json; check the bucket and the prefix";
        return Err(Fault::Lasting(why.to_owned()));
    }
    Ok(Listing::new(source.to_string(), files))
}
