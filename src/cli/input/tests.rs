use super::*;
use std::os::unix::fs::symlink;

#[test]
#[expect(clippy::disallowed_methods, reason = "makes the files that are read")]
fn folders_are_read_in_lexical_order() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["b.yaml", "a/z.txt", "a/b.yaml", "c"] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    symlink(folder.path(), folder.path().join("a/loop")).unwrap();
    symlink("c", folder.path().join("link.json")).unwrap();
    let arguments = [folder.path().to_owned(), folder.path().join("c")];
    let inputs = read(&arguments).unwrap();
    let texts: Vec<_> = inputs.iter().map(|input| input.text.as_str()).collect();
    assert_eq!(texts, ["a/b.yaml", "b.yaml", "c", "c"]);
    let passed_over = Sources::find(&arguments).unwrap().passed_over;
    assert_eq!(passed_over, [folder.path().join("a/z.txt"), folder.path().join("c")]);
    fs::write(folder.path().join("binary.yaml"), b"a\nb\xff").unwrap();
    let error = format!("{:#}", read(&[folder.path().to_owned()]).unwrap_err());
    assert!(
        error.contains("binary.yaml: is no text in UTF-8: the byte at offset 3, in line 2, is none of a character"),
        "{error}"
    );
}

#[test]
fn what_has_no_end_is_given_up() {
    let error = format!("{:#}", text(Path::new("/dev/zero")).unwrap_err());
    assert_eq!(error, "/dev/zero: is larger than 256 MiB");
}

#[test]
fn what_cannot_be_read_is_named() {
    let error = |argument: &str| format!("{:#}", read(&[argument.into()]).unwrap_err());
    assert_eq!(
        error("no/such/file"),
        "no/such/file: No such file or directory (os error 2)"
    );
    let empty = tempfile::tempdir().unwrap();
    let error_of_folder = format!("{:#}", read(&[empty.path().to_owned()]).unwrap_err());
    assert!(
        error_of_folder.ends_with(": no file below it ends in .yaml, .yml, .json"),
        "{error_of_folder}"
    );
    let twice = read(&["-".into(), "-".into()]).unwrap_err().to_string();
    assert_eq!(twice, "- stands twice: standard input can be read once");
    assert_eq!(
        format!("{:#}", read(&[]).unwrap_err()),
        "please specify a kubernetes resource file"
    );
}

#[test]
fn what_can_be_read_once_is_copied() {
    let mut sources = Sources::find(&["/proc/self/comm".into(), "/dev/null".into()]).unwrap();
    sources.make_rereadable().unwrap();
    let texts = || -> Vec<_> { sources.all.iter().map(|source| source.text().unwrap()).collect() };
    assert_eq!(texts(), texts());
    assert!(matches!(sources.all[1].place, Place::Copy(_)) && matches!(sources.all[0].place, Place::File(_)));
    let long = "a: 1\n---\n".repeat(300_000);
    let copy = Source::of_text("long", &long);
    assert!(copy.text().unwrap() == long && copy.text().unwrap() == long);
}
