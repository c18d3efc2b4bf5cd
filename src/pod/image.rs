//! References to images of containers.

/// A reference, taken apart as runtimes do: `[REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]` (`distribution/reference`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Registry and name.
    pub repository: &'a str,
    /// The tag; nothing where there is none, be it that a digest alone names the image.
    pub tag: Option<&'a str>,
    /// The digest, `sha256:` and hexadecimal digits usually. Where there is one, the tag is for people.
    pub digest: Option<&'a str>,
}

/// Takes a reference apart. It never fails: what is no reference is a repository that nobody has.
pub fn image(reference: &str) -> Image<'_> {
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    let (repository, tag) = match name.rsplit_once(':') {
        // A colon before the last slash belongs to the registry's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    };
    Image {
        repository,
        tag,
        digest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_tags_and_digests_are_told_apart() {
        let digest = Some("sha256:0123");
        for (reference, repository, tag, digest) in [
            ("web", "web", None, None),
            ("web:1", "web", Some("1"), None),
            ("localhost:5000/web", "localhost:5000/web", None, None),
            ("localhost:5000/web:1", "localhost:5000/web", Some("1"), None),
            (
                "cr.l5d.io/linkerd/proxy@sha256:0123",
                "cr.l5d.io/linkerd/proxy",
                None,
                digest,
            ),
            ("[::1]:5000/a/web:1@sha256:0123", "[::1]:5000/a/web", Some("1"), digest),
            ("", "", None, None),
        ] {
            let expected = Image {
                repository,
                tag,
                digest,
            };
            assert_eq!(image(reference), expected, "{reference}");
        }
    }
}
