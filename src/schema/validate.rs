//! Fitting arguments to a schema.

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::Fault;

/// `input` as `schema` wants it, or all its faults in the order in which they were met.
///
/// A string that holds a number or a boolean is taken for one where one is expected: models write
/// `"offset": "10"`. A number without a fraction is an integer.
pub fn validate(schema: &Value, input: &Value) -> Result<Value, Vec<Fault>> {
    let mut faults = Vec::new();
    let fitted = fit(schema, input, "", &mut faults);
    if faults.is_empty() {
        Ok(fitted)
    } else {
        Err(faults)
    }
}

fn fit(schema: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) -> Value {
    let fitted = match schema["type"].as_str() {
        Some("object") => fit_object(schema, value, path, faults),
        Some("array") => fit_array(schema, value, path, faults),
        Some("string") => of_type(
            "string",
            value.as_str().map(Value::from),
            value,
            path,
            faults,
        ),
        Some("integer") => of_type("integer", integer(value), value, path, faults),
        Some("number") => of_type("number", number(value), value, path, faults),
        Some("boolean") => of_type("boolean", boolean(value), value, path, faults),
        _ => Some(value.clone()),
    };
    let Some(fitted) = fitted else {
        return Value::Null;
    };
    check_value(schema, &fitted, path, faults);
    fitted
}

fn of_type(
    expected: &'static str,
    fitted: Option<Value>,
    value: &Value,
    path: &str,
    faults: &mut Vec<Fault>,
) -> Option<Value> {
    if fitted.is_none() {
        faults.push(Fault::Mistyped {
            path: path.to_owned(),
            expected,
            found: type_name(value),
        });
    }
    fitted
}

fn fit_object(schema: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) -> Option<Value> {
    let Some(object) = value.as_object() else {
        return of_type("object", None, value, path, faults);
    };
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !object.contains_key(name) {
            faults.push(Fault::Missing(below(name)));
        }
    }
    let mut fitted = Map::new();
    for (name, value) in object {
        match schema["properties"].get(name) {
            Some(property) => {
                fitted.insert(name.clone(), fit(property, value, &below(name), faults));
            }
            None if schema["additionalProperties"] == false => {
                faults.push(Fault::Unexpected(below(name)));
            }
            None => {
                fitted.insert(name.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(fitted))
}

fn fit_array(schema: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) -> Option<Value> {
    let Some(array) = value.as_array() else {
        return of_type("array", None, value, path, faults);
    };
    let items = array.iter().enumerate();
    let fitted =
        items.map(|(index, item)| fit(&schema["items"], item, &format!("{path}[{index}]"), faults));
    Some(Value::Array(fitted.collect()))
}

/// The whole number in `value`; a fraction of zero is none.
fn integer(value: &Value) -> Option<Value> {
    /// Up to here every whole number is a float of its own.
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    let whole = |number: f64| {
        let is_whole = number.fract() == 0.0 && number.abs() <= LIMIT;
        is_whole.then(|| Value::from(number as i64))
    };
    match value {
        Value::Number(number) if number.is_f64() => whole(number.as_f64()?),
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => match text.trim().parse::<i64>() {
            Ok(number) => Some(number.into()),
            Err(_) => whole(decimal(text)?),
        },
        _ => None,
    }
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => match text.trim().parse::<i64>() {
            Ok(number) => Some(number.into()),
            Err(_) => Number::from_f64(decimal(text)?).map(Value::Number),
        },
        _ => None,
    }
}

/// A number in digits; Rust would also take `inf` and `nan`.
fn decimal(text: &str) -> Option<f64> {
    let is_digits = text.contains(|c: char| c.is_ascii_digit());
    text.trim().parse().ok().filter(|_| is_digits)
}

fn boolean(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::String(text) => text
            .trim()
            .to_ascii_lowercase()
            .parse()
            .ok()
            .map(Value::Bool),
        _ => None,
    }
}

/// What must hold of a value whose type is right.
fn check_value(schema: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) {
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        let allowed = allowed.join(", ");
        faults.push(Fault::Other(format!(
            "The parameter `{path}` must be one of {allowed}, not {value}"
        )));
    }
    for (key, words, is_out) in [
        ("minimum", "at least", f64::lt as fn(&f64, &f64) -> bool),
        ("maximum", "at most", f64::gt),
    ] {
        if let (Some(limit), Some(number)) = (schema[key].as_f64(), value.as_f64())
            && is_out(&number, &limit)
        {
            faults.push(Fault::Other(format!(
                "The parameter `{path}` must be {words} {}, not {value}",
                schema[key]
            )));
        }
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !Regex::new(pattern).is_ok_and(|regex| regex.is_match(text))
    {
        faults.push(Fault::Other(format!(
            "The parameter `{path}` must match {pattern}, not {value}"
        )));
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "pattern": "^[a-z]+$"},
                "offset": {"type": "integer", "minimum": 1, "maximum": 10},
                "ratio": {"type": "number"},
                "all": {"type": "boolean"},
                "mode": {"type": "string", "enum": ["content", "count"]},
                "todos": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"status": {"type": "string"}},
                    "required": ["status"],
                    "additionalProperties": false,
                }},
            },
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn numbers_and_booleans_may_be_written_as_strings() {
        for (input, expected) in [
            (
                json!({"path": "a", "offset": "7", "all": "true", "ratio": "0.5"}),
                json!({"path": "a", "offset": 7, "all": true, "ratio": 0.5}),
            ),
            (
                json!({"path": "a", "offset": 7.0, "all": "False", "ratio": "3"}),
                json!({"path": "a", "offset": 7, "all": false, "ratio": 3}),
            ),
            (
                json!({"path": "a", "todos": [{"status": "b"}]}),
                json!({"path": "a", "todos": [{"status": "b"}]}),
            ),
        ] {
            assert_eq!(validate(&schema(), &input), Ok(expected), "{input}");
        }
    }

    #[test]
    fn every_fault_is_named_with_its_place() {
        for (input, expected) in [
            (json!({}), "The required parameter `path` is missing"),
            (
                json!([]),
                "The input type is expected as `object` but provided as `array`",
            ),
            (
                json!({"path": 1}),
                "The parameter `path` type is expected as `string` but provided as `number`",
            ),
            (
                json!({"path": null}),
                "The parameter `path` type is expected as `string` but provided as `null`",
            ),
            (
                json!({"path": "a", "offset": 1.5}),
                "The parameter `offset` type is expected as `integer` but provided as `number`",
            ),
            (
                json!({"path": "a", "offset": "many"}),
                "The parameter `offset` type is expected as `integer` but provided as `string`",
            ),
            (
                json!({"path": "a", "ratio": "nan"}),
                "The parameter `ratio` type is expected as `number` but provided as `string`",
            ),
            (
                json!({"path": "a", "all": "yes"}),
                "The parameter `all` type is expected as `boolean` but provided as `string`",
            ),
            (
                json!({"path": "a", "todos": [{"status": "b"}, {"status": {}}]}),
                "The parameter `todos[1].status` type is expected as `string` but provided as `object`",
            ),
            (
                json!({"path": "a", "todos": [{}]}),
                "The required parameter `todos[0].status` is missing",
            ),
            (
                json!({"path": "a", "offset": 0}),
                "The parameter `offset` must be at least 1, not 0",
            ),
            (
                json!({"path": "a", "offset": "11"}),
                "The parameter `offset` must be at most 10, not 11",
            ),
            (
                json!({"path": "A"}),
                "The parameter `path` must match ^[a-z]+$, not \"A\"",
            ),
            (
                json!({"path": "a", "mode": "lines"}),
                "The parameter `mode` must be one of \"content\", \"count\", not \"lines\"",
            ),
            (
                json!({"path": "a", "file": 1}),
                "An unexpected parameter `file` was provided",
            ),
        ] {
            let faults = validate(&schema(), &input).unwrap_err();
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            assert_eq!(faults, [expected], "{input}");
        }
    }
}
