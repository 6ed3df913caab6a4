//! Pictures, as the Messages API takes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::message::ResultContent;

use super::Output;

/// The API takes 10 MB of base64 for one picture and 5 MB on other clouds; a file of this size is near
/// the latter. Source: Anthropic API documentation, "Vision".
const MAX_BYTES: u64 = 5 * 1000 * 1000;

/// The API's limit for each side. Same source.
const MAX_PIXELS: usize = 8000;

/// Side of the square of pixels that costs one token. Same source.
const PIXELS_PER_TOKEN: usize = 28;

/// The most tokens one picture costs, larger ones being scaled down. Same source, models from 4.7 on;
/// older ones stop at 1 568.
const MAX_TOKENS: u64 = 4784;

/// The media type of a picture, from its first bytes; `None` when it is none that the API takes.
pub(super) fn media_type(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// The picture itself as a result; `shown` is its path.
pub(super) fn output(shown: &str, media_type: &str, content: &[u8]) -> Output {
    let bytes = content.len() as u64;
    if bytes > MAX_BYTES {
        return Output::error(format!(
            "{shown} is a picture of {bytes} bytes; at most {MAX_BYTES} can be read"
        ));
    }
    let size = match imagesize::blob_size(content) {
        Ok(size) if size.width > 0 && size.height > 0 => size,
        Ok(_) => return Output::error(format!("{shown} is a picture without pixels")),
        Err(error) => return Output::error(format!("{shown} is a damaged picture: {error}")),
    };
    if size.width > MAX_PIXELS || size.height > MAX_PIXELS {
        return Output::error(format!(
            "{shown} has {} × {} pixels; at most {MAX_PIXELS} a side can be read",
            size.width, size.height
        ));
    }
    let tokens = size.width.div_ceil(PIXELS_PER_TOKEN) * size.height.div_ceil(PIXELS_PER_TOKEN);
    Output {
        content: vec![ResultContent::Image {
            media_type: media_type.to_owned(),
            base64: STANDARD.encode(content),
            input_bound: (tokens as u64).min(MAX_TOKENS),
        }],
        is_error: false,
        structured: json!({
            "file_path": shown,
            "media_type": media_type,
            "width": size.width,
            "height": size.height,
            "bytes": bytes,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG's signature and header, which is all that is looked at.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR".to_vec();
        png.extend(width.to_be_bytes());
        png.extend(height.to_be_bytes());
        png.extend(b"\x08\x02\0\0\0");
        png
    }

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        for (content, expected) in [
            (&png(1, 1)[..], Some("image/png")),
            (b"\xFF\xD8\xFF\xE0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"<svg>", None),
            (b"", None),
        ] {
            assert_eq!(media_type(content), expected);
        }
    }

    #[test]
    fn a_picture_costs_by_its_pixels() {
        for (width, height, tokens) in [
            (1, 1, 1),
            (28, 29, 2),
            (1000, 1000, 1296),
            (8000, 8000, 4784),
        ] {
            let content = png(width, height);
            let output = output("a.png", "image/png", &content);
            let expected = ResultContent::Image {
                media_type: "image/png".into(),
                base64: STANDARD.encode(&content),
                input_bound: tokens,
            };
            assert_eq!(output.content, [expected]);
        }
    }

    #[test]
    fn what_the_api_would_refuse_is_refused_here() {
        let mut large = png(10, 10);
        large.resize(5_000_001, 0);
        for (content, expected) in [
            (
                large,
                "a.png is a picture of 5000001 bytes; at most 5000000 can be read",
            ),
            (
                png(8001, 1),
                "a.png has 8001 × 1 pixels; at most 8000 a side can be read",
            ),
            (png(0, 1), "a.png is a picture without pixels"),
        ] {
            assert_eq!(
                output("a.png", "image/png", &content),
                Output::error(expected)
            );
        }
    }
}
