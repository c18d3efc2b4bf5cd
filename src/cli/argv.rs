//! Arguments as other programs give them, rewritten to ours: Linkerd's chart starts its injector as `proxy-injector
//! -log-level=info`, in the manner of Go's `flag` package.

use std::ffi::OsString;

/// Rewrites `arguments`, the program's name first.
pub(super) fn normalise(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    let Some((command, flags)) = arguments.get_mut(1..).and_then(|rest| rest.split_first_mut()) else {
        return arguments;
    };
    if command == "proxy-injector" {
        *command = "webhook".into();
    }
    if command == "webhook" {
        flags.iter_mut().for_each(lengthen);
    }
    arguments
}

/// `-log-level` as `--log-level`. One letter stays one letter, and what is no flag stays as it is.
fn lengthen(argument: &mut OsString) {
    let long = argument
        .to_str()
        .and_then(|text| text.strip_prefix('-'))
        .is_some_and(|name| name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic()));
    if long {
        let mut lengthened = OsString::from("-");
        lengthened.push(&argument);
        *argument = lengthened;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(arguments: &str) -> String {
        let normalised = normalise(arguments.split(' ').map(OsString::from));
        normalised.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn the_flags_of_linkerds_injector_are_understood() {
        assert_eq!(
            normalised("outrigger proxy-injector -log-level=info -enable-pprof=false --addr :8443 -h - -1"),
            "outrigger webhook --log-level=info --enable-pprof=false --addr :8443 -h - -1"
        );
    }

    #[test]
    fn other_commands_keep_their_arguments() {
        for arguments in ["outrigger inject -ojson -", "outrigger", "outrigger -help"] {
            assert_eq!(normalised(arguments), arguments);
        }
    }
}
