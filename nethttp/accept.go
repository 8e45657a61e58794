package nethttp

import "strings"

// mediaType is a form of the refusal's body.
type mediaType uint8

const (
	problemJSON mediaType = iota
	textHTML
	textPlain
)

// maxAccept is the most bytes of Accept that are read, in all its lines together.
// Browsers send some 150 bytes. net/http takes up to 1 MB, which would cost a
// refusal 20 ms.
const maxAccept = 4 << 10

// negotiate returns JSON, unless the client asks for HTML or plain text and for no
// JSON at all; in this case it returns the one of the two that is named first.
// Weights do not count, except that q=0 excludes a type.
func negotiate(accept []string) mediaType {
	answer, rest := problemJSON, maxAccept
	for _, line := range accept {
		if len(line) > rest {
			line = line[:strings.LastIndexByte(line[:rest], ',')+1] // without the element that maxAccept cuts
			rest = 0
		}
		for element := range strings.SplitSeq(line, ",") {
			media, parameters, _ := strings.Cut(element, ";")
			media = strings.TrimSpace(media)
			switch {
			case media == "" || unacceptable(parameters):
			case isJSON(media):
				return problemJSON
			case answer != problemJSON:
			case strings.EqualFold(media, "text/html"):
				answer = textHTML
			case strings.EqualFold(media, "text/plain"), strings.EqualFold(media, "text/*"):
				answer = textPlain
			}
		}
		if rest -= len(line) + 1; rest <= 0 { // lines are joined by a comma
			break
		}
	}
	return answer
}

// isJSON reports whether a media range asks for JSON.
func isJSON(media string) bool {
	const suffix = "+json"
	return strings.EqualFold(media, "application/*") || strings.EqualFold(media, "application/json") ||
		len(media) > len(suffix) && strings.EqualFold(media[len(media)-len(suffix):], suffix)
}

// unacceptable reports whether the parameters of a media range hold a weight of 0.
func unacceptable(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, found := strings.Cut(strings.TrimSpace(p), "=")
		if found && strings.EqualFold(name, "q") {
			return strings.Trim(value, "0.") == ""
		}
	}
	return false
}
