//! The transcripts of the command line in `tests/cmd`, which are its documentation as well.

#[test]
fn transcripts_are_true() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}
