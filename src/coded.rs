//! Codes: the stable words and numbers by which people and programs know a kind of thing, and the list of all of them.

/// Gives a type its codes. One table makes the function and the list, so that neither lacks what the other has.
macro_rules! coded {
    ($kind:ident, $me:ident: $receiver:ty => $code:ty { $($pattern:pat => $value:literal,)* }) => {
        impl $kind {
            /// Every code, in the order of the kinds.
            pub const CODES: &'static [$code] = &[$($value),*];

            /// The code: stable, and the same wherever it is said.
            pub const fn code($me: $receiver) -> $code {
                match $me { $($pattern => $value,)* }
            }
        }
    };
}
