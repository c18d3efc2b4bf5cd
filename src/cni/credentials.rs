//! How the API server is reached: the credentials file that the agent, or Linkerd's installer, leaves on the node.
//!
//! The file is a kubeconfig, JSON or YAML, of which this is read: the current context (else `linkerd-cni-context`, else
//! the first), of its cluster `server`, `certificate-authority-data` or `certificate-authority`, and `tls-server-name`,
//! of its user `token` or `tokenFile`. Nothing here is ever printed but the address and paths of files.

use crate::pod::{boolean, list, object, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt;

/// Where the API server is and what it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Where it listens.
    pub server: Server,
    /// Who vouches for it; `None` where the connection is not encrypted.
    pub authority: Option<Material>,
    /// The bearer token.
    pub token: Option<Material>,
}

/// Content, or the path of a file with it, which is read anew each time.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// The content itself.
    Inline(String),
    /// Path of a file, relative to that of the credentials.
    File(String),
}

/// Address of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What comes before `/api`, without a slash at its end.
    pub prefix: String,
    /// The name that its certificate must have.
    pub certificate_name: String,
}

/// What is wrong with a credentials file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// It cannot be decoded; the cause is left out, for it might quote the token.
    #[error("it is neither JSON nor YAML")]
    Decode,
    /// A key is missing or has a value that cannot be used.
    #[error("{key}: {why}")]
    Key {
        /// Which.
        key: &'static str,
        /// What would be right.
        why: String,
    },
}

/// The context that Linkerd's plugin takes.
const LINKERD_CONTEXT: &str = "linkerd-cni-context";

impl Credentials {
    /// Reads the text of a credentials file.
    ///
    /// # Errors
    /// Where it is not one, or says too little.
    pub fn parse(document: &str) -> Result<Self, CredentialsError> {
        let document: Value = match document.trim_start().starts_with('{') {
            true => serde_json::from_str(document).map_err(|_may_quote_the_token| CredentialsError::Decode)?,
            false => serde_saphyr::from_str(document).map_err(|_may_quote_the_token| CredentialsError::Decode)?,
        };
        let context = context(&document);
        let refers = |key| context.and_then(|context| text(context, key));
        let cluster = entry(&document, "clusters", "cluster", refers("cluster"))
            .ok_or_else(|| wrong("clusters", "expected the cluster that the context names"))?;
        let user = entry(&document, "users", "user", refers("user"));
        if boolean(cluster, "insecure-skip-tls-verify") == Some(true) {
            return Err(wrong(
                "insecure-skip-tls-verify",
                "expected an authority that vouches for the server",
            ));
        }
        let server = Server::parse(cluster)?;
        Ok(Self {
            authority: if server.tls { Some(authority(cluster)?) } else { None },
            token: user.and_then(token),
            server,
        })
    }
}

impl Server {
    fn parse(cluster: &Value) -> Result<Self, CredentialsError> {
        let url = text(cluster, "server").unwrap_or_default();
        let error = || wrong("server", &format!("{url:?} is no address; expected https://HOST:PORT"));
        let (scheme, rest) = url.split_once("://").ok_or_else(error)?;
        let tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(error()),
        };
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = split(authority).ok_or_else(error)?;
        let port = match port {
            "" => {
                if tls {
                    443
                } else {
                    80
                }
            }
            port => port.parse().map_err(|_source| error())?,
        };
        let stray = |c: char| c.is_whitespace() || c.is_control() || c == '@';
        if host.is_empty() || url.contains(stray) {
            return Err(error());
        }
        let named = text(cluster, "tls-server-name").filter(|name| !name.is_empty());
        Ok(Self {
            tls,
            certificate_name: named.unwrap_or(host).to_owned(),
            host: host.to_owned(),
            port,
            prefix: match prefix.trim_end_matches('/') {
                "" => String::new(),
                prefix => format!("/{prefix}"),
            },
        })
    }

    /// Host and port as a URL has them.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(…)"),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Splits `host:port`; an IPv6 address is in brackets.
fn split(authority: &str) -> Option<(&str, &str)> {
    match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            Some((host, if port.is_empty() { port } else { port.strip_prefix(':')? }))
        }
        None => match authority.split_once(':') {
            // More colons are an IPv6 address without its brackets, of which nobody can tell the port.
            Some((_, port)) if port.contains(':') => None,
            Some(parts) => Some(parts),
            None => Some((authority, "")),
        },
    }
}

fn context(document: &Value) -> Option<&Value> {
    let current = text(document, "current-context").filter(|name| !name.is_empty());
    let named = |name| entry(document, "contexts", "context", Some(name));
    match current {
        Some(name) => named(name),
        None => named(LINKERD_CONTEXT).or_else(|| entry(document, "contexts", "context", None)),
    }
}

/// The entry of a list of named objects; the first where no name is given.
fn entry<'a>(document: &'a Value, plural: &str, singular: &str, name: Option<&str>) -> Option<&'a Value> {
    let found = list(document, plural).find(|entry| name.is_none() || text(entry, "name") == name)?;
    object(found, singular)
}

fn authority(cluster: &Value) -> Result<Material, CredentialsError> {
    if let Some(data) = text(cluster, "certificate-authority-data") {
        let error = || wrong("certificate-authority-data", "expected certificates, PEM in base64");
        let bytes = STANDARD.decode(data.trim()).map_err(|_source| error())?;
        return Ok(Material::Inline(String::from_utf8(bytes).map_err(|_source| error())?));
    }
    let path = text(cluster, "certificate-authority");
    path.map(|path| Material::File(path.to_owned())).ok_or_else(|| {
        wrong(
            "certificate-authority-data",
            "expected the authority that vouches for the server",
        )
    })
}

fn token(user: &Value) -> Option<Material> {
    // As with kubectl, a file wins: its content is renewed.
    let file = text(user, "tokenFile").map(|path| Material::File(path.to_owned()));
    file.or_else(|| text(user, "token").map(|token| Material::Inline(token.to_owned())))
}

fn wrong(key: &'static str, why: &str) -> CredentialsError {
    CredentialsError::Key {
        key,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(cluster: &Value, user: &Value) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "other", "context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "other", "cluster": {"server": "https://wrong"}}, {"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        })
        .to_string()
    }

    fn server(url: &str) -> Result<Credentials, CredentialsError> {
        Credentials::parse(&document(
            &json!({"server": url, "certificate-authority": "ca.crt"}),
            &json!({"token": "t"}),
        ))
    }

    #[test]
    fn the_current_context_is_used() {
        let data = STANDARD.encode("PEM");
        let cluster = json!({"server": "https://10.96.0.1:443", "certificate-authority-data": data});
        let read = Credentials::parse(&document(&cluster, &json!({"token": "t", "tokenFile": "token"}))).unwrap();
        assert_eq!(read.server.to_string(), "https://10.96.0.1:443");
        assert_eq!(read.authority, Some(Material::Inline("PEM".to_owned())));
        assert_eq!(read.token, Some(Material::File("token".to_owned())));
    }

    #[test]
    fn the_file_of_linkerds_installer_is_read() {
        let text = "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://[fd00::1]:443\n    \
                    certificate-authority-data: UEVN\nusers:\n- name: linkerd-cni\n  user:\n    token: abc\ncontexts:\n- \
                    name: linkerd-cni-context\n  context:\n    cluster: local\n    user: linkerd-cni\n";
        let read = Credentials::parse(text).unwrap();
        assert_eq!((read.server.host.as_str(), read.server.port), ("fd00::1", 443));
        assert_eq!(read.server.authority(), "[fd00::1]:443");
        assert_eq!(read.token, Some(Material::Inline("abc".to_owned())));
    }

    #[test]
    fn addresses_are_read_or_refused() {
        let host = |url| server(url).map(|read| (read.server.host, read.server.port, read.server.prefix));
        let of = |host: &str, port, prefix: &str| Ok((host.to_owned(), port, prefix.to_owned()));
        assert_eq!(host("https://api.example.com"), of("api.example.com", 443, ""));
        assert_eq!(host("http://127.0.0.1:8001/"), of("127.0.0.1", 8001, ""));
        assert_eq!(
            host("https://rancher.example.com/k8s/clusters/c-1/"),
            of("rancher.example.com", 443, "/k8s/clusters/c-1")
        );
        for url in [
            "",
            "10.0.0.1:443",
            "ftp://a",
            "https://",
            "https://fd00:10::1:443",
            "https://a:x",
            "https://a b",
            "https://[::1",
        ] {
            assert!(server(url).unwrap_err().to_string().starts_with("server: "), "{url}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let read = server("https://10.0.0.1").unwrap();
        assert!(!format!("{read:?} {:?}", read.token).contains("\"t\""));
        let error = Credentials::parse("{\"users\": [{\"user\": {\"token\": \"secret\"").unwrap_err();
        assert_eq!(error.to_string(), "it is neither JSON nor YAML");
        assert_eq!(Credentials::parse("a: [b").unwrap_err(), CredentialsError::Decode);
        assert!(matches!(
            Credentials::parse("{}"),
            Err(CredentialsError::Key { key: "clusters", .. })
        ));
    }

    #[test]
    fn a_server_must_prove_who_it_is() {
        let error = |cluster| {
            Credentials::parse(&document(&cluster, &json!({})))
                .unwrap_err()
                .to_string()
        };
        let url = "https://10.0.0.1";
        assert!(error(json!({"server": url})).starts_with("certificate-authority-data"));
        assert!(
            error(json!({"server": url, "insecure-skip-tls-verify": true})).starts_with("insecure-skip-tls-verify")
        );
        assert!(
            error(json!({"server": url, "certificate-authority-data": "?"})).starts_with("certificate-authority-data")
        );
        let plain = Credentials::parse(&document(&json!({"server": "http://10.0.0.1"}), &json!({}))).unwrap();
        assert_eq!((plain.authority, plain.token), (None, None));
    }
}
