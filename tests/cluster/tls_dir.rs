//! A Secret mount with a TLS pair, changed the way kubelet changes one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::authority::{Authority, Pair};

/// A folder with `tls.crt` and `tls.key`, laid out as kubelet lays out a Secret volume.
///
/// The files are links into `..data`, itself a link to a folder that holds one state of the Secret. A new state is
/// written beside the old one and becomes visible by one rename of `..data` (`AtomicWriter` in
/// `k8s.io/kubernetes/pkg/volume/util`): a reader that opens one file before it and one after it sees a mixed pair, and
/// a watch on `tls.crt` sees nothing.
#[derive(Debug)]
pub(crate) struct TlsDir {
    dir: TempDir,
}

impl TlsDir {
    /// A mount that holds a certificate of `authority`.
    pub(crate) fn new(authority: &Authority) -> Self {
        let mount = Self {
            dir: TempDir::new().expect("a temporary folder can be made"),
        };
        mount.rotate(authority);
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), mount.path().join(name)).expect("a link can be made");
        }
        mount
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a new certificate of `authority` in place of the old one, and returns it.
    pub(crate) fn rotate(&self, authority: &Authority) -> Pair {
        let pair = authority.issue();
        self.write(&pair.certificate, &pair.key);
        pair
    }

    /// Makes `certificate` and `key`, whatever they hold, the state of the mount.
    pub(crate) fn write(&self, certificate: &str, key: &str) {
        let data = self.path().join("..data");
        let old = fs::read_link(&data).ok();
        let new = tempfile::Builder::new()
            .prefix("..")
            .tempdir_in(self.path())
            .expect("a folder can be made")
            .keep();
        fs::write(new.join("tls.crt"), certificate).expect("tls.crt can be written");
        fs::write(new.join("tls.key"), key).expect("tls.key can be written");
        let next = self.path().join("..data_tmp");
        symlink(new.file_name().expect("a temporary folder has a name"), &next).expect("a link can be made");
        fs::rename(&next, &data).expect("a link can be renamed");
        if let Some(old) = old {
            fs::remove_dir_all(self.path().join(old)).expect("the old state can be removed");
        }
    }
}
