//! A policy in the making: as tight as can be, then loosened need by need, each time with a note that says for whom.

use super::{Need, Needs};
use serde_json::{Map, Value};
use std::fmt::Display;

/// A policy made for some pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Tailored {
    /// The object, as the API takes it.
    pub object: Value,
    /// Why it says what it says, where that is not what every such policy says.
    pub notes: Vec<Note>,
}

/// Something to be said of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The keys that lead to the field from the object's root.
    pub path: Vec<String>,
    /// One sentence.
    pub text: String,
}

/// An object whose fields at `root` are loosened one by one.
#[derive(Debug)]
pub(in crate::policy) struct Draft<'n, 'p> {
    needs: &'n Needs<'p>,
    root: &'static [&'static str],
    object: Value,
    notes: Vec<Note>,
}

impl<'n, 'p> Draft<'n, 'p> {
    pub(in crate::policy) fn new(needs: &'n Needs<'p>, root: &'static [&'static str], object: Value) -> Self {
        Self {
            needs,
            root,
            object,
            notes: Vec::new(),
        }
    }

    /// Sets `field` to `value` where anybody has `need`, and says who.
    pub(in crate::policy) fn set_for(&mut self, field: &str, value: Value, need: &Need<'p>) -> bool {
        let Some(askers) = self.needs.askers(need) else {
            return false;
        };
        self.set(field, value);
        self.note(&[field], &format_args!("{need}: {askers}"));
        true
    }

    /// The same for every need that `meant` picks.
    pub(in crate::policy) fn set_for_any(&mut self, field: &str, value: &Value, meant: impl Fn(&Need<'p>) -> bool) {
        for (need, _) in self.needs.iter().filter(|(need, _)| meant(need)) {
            self.set_for(field, value.clone(), need);
        }
    }

    /// Allows the capabilities that are added in the list `allowed`; one that stands for all others cannot stand beside
    /// `dropped`, which is emptied then.
    pub(in crate::policy) fn allow_capabilities(&mut self, allowed: &str, dropped: &str) {
        for every in [Need::Capability("ALL"), Need::Capability("*")] {
            self.set_for(dropped, Value::Array(Vec::new()), &every);
        }
        self.allow(&[allowed], |need| {
            let Need::Capability(name) = need else { return None };
            Some(Value::from(*name))
        });
    }

    /// Sets `field` to `value`.
    fn set(&mut self, field: &str, value: Value) {
        if let Some(fields) = self.fields() {
            fields.insert(field.to_owned(), value);
        }
    }

    /// Adds to the list at `path` what `item` makes of each need, and says who has it; what is in the list already goes
    /// without saying.
    pub(in crate::policy) fn allow(&mut self, path: &[&str], item: impl Fn(&Need<'p>) -> Option<Value>) {
        for (need, askers) in self.needs.iter() {
            let Some(value) = item(need) else { continue };
            let root = self.root();
            let list = path.iter().try_fold(root, |place, key| {
                let fields = place?.as_object_mut()?;
                Some(Some(fields.entry(*key).or_insert(Value::Null)))
            });
            let Some(list) = list.flatten() else { continue };
            if list.is_null() {
                *list = Value::Array(Vec::new());
            }
            let Some(list) = list.as_array_mut().filter(|list| !list.contains(&value)) else {
                continue;
            };
            list.push(value);
            self.note(path.get(..1).unwrap_or_default(), &format_args!("{need}: {askers}"));
        }
    }

    /// Says something of the field at `path`.
    pub(in crate::policy) fn note(&mut self, path: &[&str], text: &dyn Display) {
        let path = self.root.iter().chain(path).map(|key| (*key).to_owned());
        self.notes.push(Note {
            path: path.collect(),
            text: text.to_string(),
        });
    }

    /// Sets an annotation, and says who needs what it says.
    pub(in crate::policy) fn annotate(&mut self, key: &str, value: String, notes: impl IntoIterator<Item = String>) {
        if let Some(metadata) = self.object.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(key.to_owned(), value.into());
            }
        }
        let path = ["metadata", "annotations", key].map(str::to_owned);
        self.notes.extend(notes.into_iter().map(|text| Note {
            path: path.to_vec(),
            text,
        }));
    }

    pub(in crate::policy) fn finish(self) -> Tailored {
        Tailored {
            object: self.object,
            notes: self.notes,
        }
    }

    fn root(&mut self) -> Option<&mut Value> {
        self.root
            .iter()
            .try_fold(&mut self.object, |place, key| place.get_mut(*key))
    }

    fn fields(&mut self) -> Option<&mut Map<String, Value>> {
        self.root()?.as_object_mut()
    }
}
