//! Where a server is: the base URL as people write it, and what follows from the address (proxy, patience, what may be sent).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use crate::core::event::{Failure, ModelFailure, ModelFailureKind};

/// A server's address.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host, port and the path before `/v1`; no user information, no trailing slash.
    root: String,
    /// Path of the OpenAI-compatible interface below `root`, mostly `/v1`.
    version: String,
    host: String,
    port: u16,
    https: bool,
    user_info: Option<(String, String)>,
}

/// How near an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This machine.
    Loopback,
    /// The local network.
    Private,
    /// Anywhere else.
    Public,
}

impl Endpoint {
    /// Reads a base URL: with or without `/v1`, a trailing slash, or the scheme (`localhost:11434`).
    pub fn parse(text: &str) -> Result<Self, ModelFailure> {
        let text = text.trim();
        let url = Url::parse(&with_scheme(text)).map_err(|error| unusable(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unusable("only http and https are spoken"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(unusable("it must not carry a query or a fragment"));
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(unusable("it names no host"));
        };
        let (prefix, version) = split_path(url.path());
        let origin = match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        };
        let user_info = (!url.username().is_empty())
            .then(|| (url.username().to_owned(), url.password().unwrap_or_default().to_owned()));
        Ok(Self {
            root: format!("{origin}{prefix}"),
            version,
            host: host.to_owned(),
            port,
            https: url.scheme() == "https",
            user_info,
        })
    }

    /// The base URL without user information, for people, logs and the profile.
    pub fn shown(&self) -> String {
        format!("{}{}", self.root, self.version)
    }

    /// Address of a path of the OpenAI-compatible interface, such as `/models`.
    pub(super) fn openai(&self, path: &str) -> String {
        format!("{}{}{path}", self.root, self.version)
    }

    /// Address of a path of the server itself, such as `/api/version`.
    pub(super) fn server(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    /// User name and password from the URL.
    pub(super) fn user_info(&self) -> Option<(&str, &str)> {
        self.user_info.as_ref().map(|(name, password)| (name.as_str(), password.as_str()))
    }

    /// Whether the connection is encrypted.
    pub fn https(&self) -> bool {
        self.https
    }

    /// Whether nothing sent there leaves this machine. Such a host never goes through a proxy.
    pub fn is_loopback(&self) -> bool {
        self.place() == Place::Loopback
    }

    /// How near the address is. Names are not looked up: only names that cannot mean something public are near.
    pub fn place(&self) -> Place {
        let host = self.host.trim_end_matches('.');
        if host.eq_ignore_ascii_case("localhost") {
            return Place::Loopback;
        }
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => place_v4(ip),
            Ok(IpAddr::V6(ip)) => place_v6(ip),
            Err(_) => place_name(host),
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", self.shown())
    }
}

fn unusable(why: &str) -> ModelFailure {
    // The URL itself is left out: it may hold a password.
    ModelFailure {
        kind: ModelFailureKind::Other,
        failure: Failure::new(
            "the base URL cannot be used",
            why,
            "write it like http://localhost:11434/v1 (--base-url or model.base_url)",
        ),
        partial: String::new(),
    }
}

/// Adds the scheme people leave out: plain http to a port or a near host, https to the rest.
fn with_scheme(text: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    let authority = text.split('/').next().unwrap_or_default();
    let http = format!("http://{text}");
    let has_port = authority.rsplit(':').next().is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    let near = || Endpoint::parse(&http).is_ok_and(|e| e.place() != Place::Public);
    if (has_port && authority.contains(':')) || near() { http } else { format!("https://{text}") }
}

/// Splits a path into what comes before the version and the version. Paths with a version of any form (`/v1`,
/// `/api/v3`, `/v1beta/openai`) are taken as they are; others get `/v1`.
fn split_path(path: &str) -> (String, String) {
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/chat/completions").unwrap_or(path).trim_end_matches('/');
    let path = if matches!(path, "/api" | "/api/chat") { "" } else { path };
    let segments: Vec<&str> = path.split('/').collect();
    match segments.iter().position(|s| is_version(s)) {
        Some(at) => {
            let prefix = segments.get(..at).unwrap_or_default().join("/");
            let version = segments.get(at..).unwrap_or_default().join("/");
            (prefix, format!("/{version}"))
        }
        None => (path.to_owned(), "/v1".to_owned()),
    }
}

fn is_version(segment: &str) -> bool {
    let mut chars = segment.chars();
    chars.next() == Some('v') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

fn place_v4(ip: Ipv4Addr) -> Place {
    let [a, b, ..] = ip.octets();
    // Connecting to the unspecified address reaches this machine; 100.64/10 is shared space of providers and of
    // private overlay networks.
    if ip.is_loopback() || ip.is_unspecified() {
        Place::Loopback
    } else if ip.is_private() || ip.is_link_local() || (a == 100 && (64..128).contains(&b)) {
        Place::Private
    } else {
        Place::Public
    }
}

fn place_v6(ip: Ipv6Addr) -> Place {
    if let Some(v4) = ip.to_ipv4_mapped() {
        place_v4(v4)
    } else if ip.is_loopback() || ip.is_unspecified() {
        Place::Loopback
    } else if ip.is_unique_local() || ip.is_unicast_link_local() {
        Place::Private
    } else {
        Place::Public
    }
}

fn place_name(host: &str) -> Place {
    const NEAR: [&str; 6] = [".localhost", ".local", ".lan", ".internal", ".intranet", ".home.arpa"];
    let host = host.to_ascii_lowercase();
    let near = !host.contains('.') || NEAR.iter().any(|end| host.ends_with(end));
    if near { Place::Private } else { Place::Public }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        Endpoint::parse(text).unwrap().shown()
    }

    #[test]
    fn base_urls_as_people_write_them() {
        for (written, meant) in [
            ("http://localhost:11434/v1", "http://localhost:11434/v1"),
            ("http://localhost:11434/v1/", "http://localhost:11434/v1"),
            ("http://localhost:11434", "http://localhost:11434/v1"),
            ("http://localhost:11434/", "http://localhost:11434/v1"),
            ("http://localhost:11434/api", "http://localhost:11434/v1"),
            ("localhost:11434", "http://localhost:11434/v1"),
            ("localhost", "http://localhost/v1"),
            ("192.168.1.4:8080/v1", "http://192.168.1.4:8080/v1"),
            ("[::1]:8080", "http://[::1]:8080/v1"),
            ("api.example.com", "https://api.example.com/v1"),
            ("https://api.example.com/openai/v1", "https://api.example.com/openai/v1"),
            ("https://api.example.com/openai/v1/chat/completions", "https://api.example.com/openai/v1"),
            ("https://api.example.com/v1beta/openai/", "https://api.example.com/v1beta/openai"),
            ("https://api.example.com/proxy", "https://api.example.com/proxy/v1"),
            (" http://127.0.0.1:8089/v1 ", "http://127.0.0.1:8089/v1"),
        ] {
            assert_eq!(shown(written), meant, "{written}");
        }
        let nested = Endpoint::parse("https://example.com/llm/v1").unwrap();
        assert_eq!(nested.server("/props"), "https://example.com/llm/props");
        assert_eq!(nested.openai("/models"), "https://example.com/llm/v1/models");
    }

    #[test]
    fn what_is_no_base_url_is_refused_without_repeating_it() {
        for text in ["", "ftp://h/x", "file:///etc/passwd", "http://", "http://u:secret@h/?k=secret", "a b"] {
            let failure = Endpoint::parse(text).unwrap_err();
            assert!(!failure.failure.hint.is_empty());
            assert!(!format!("{failure:?}").contains("secret"), "{text}");
        }
    }

    #[test]
    fn user_information_is_kept_out_of_what_is_shown() {
        let e = Endpoint::parse("http://me:geheim@127.0.0.1:1/v1").unwrap();
        assert_eq!(e.user_info(), Some(("me", "geheim")));
        assert!(!format!("{e:?}{}{}{}", e.shown(), e.server("/a"), e.openai("/b")).contains("geheim"));
    }

    #[test]
    fn places() {
        use Place::*;
        for (host, place) in [
            ("localhost", Loopback),
            ("LOCALHOST", Loopback),
            ("localhost.", Loopback),
            ("127.9.9.9", Loopback),
            ("0.0.0.0", Loopback),
            ("[::1]", Loopback),
            ("[::ffff:127.0.0.1]", Loopback),
            ("10.1.2.3", Private),
            ("100.64.0.1", Private),
            ("[fd00::1]", Private),
            ("ollama", Private),
            ("host.docker.internal", Private),
            // A resolver may answer this one with any address.
            ("x.localhost", Private),
            ("localhost.example.com", Public),
            ("127.0.0.1.example.com", Public),
            ("8.8.8.8", Public),
            ("100.128.0.1", Public),
            ("[2001:db8::1]", Public),
        ] {
            assert_eq!(Endpoint::parse(&format!("http://{host}/")).unwrap().place(), place, "{host}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            if let Ok(e) = Endpoint::parse(&text) {
                prop_assert!(reqwest::Url::parse(&e.openai("/models")).is_ok());
            }
        }
    }
}
