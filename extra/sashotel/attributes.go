package sashotel

import (
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The attributes that the semantic conventions have no names for.
const (
	limiterKey      = attribute.Key("sash.limiter")
	ruleKey         = attribute.Key("sash.rule")
	outcomeKey      = attribute.Key("sash.outcome")
	allowedKey      = attribute.Key("sash.allowed")
	storeKey        = attribute.Key("sash.store")
	sourceKey       = attribute.Key("sash.source")
	stageKey        = attribute.Key("sash.stage")
	statusKey       = attribute.Key("sash.status")
	limitKey        = attribute.Key("sash.limit")
	remainingKey    = attribute.Key("sash.remaining")
	elapsedKey      = attribute.Key("sash.elapsed")
	peekKey         = attribute.Key("sash.peek")
	noticeCodeKey   = attribute.Key("sash.notice.code")
	breakerStateKey = attribute.Key("sash.breaker.state")
)

const (
	// maxText bounds the bytes of the value of an attribute.
	maxText = 256

	// otherText stands for what exceeds maxSeries.
	otherText = "other"
)

// clean returns text as OpenTelemetry takes it: UTF-8, and of at most maxText bytes.
// Other text would make an exporter fail, with all that it has to export.
func clean(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
}

// routeAttributes returns the attributes of a label, which is in HTTP the pattern of a
// route such as "POST /login". A label that is empty has none.
func routeAttributes(label string) []attribute.KeyValue {
	if label == "" {
		return nil
	}
	method, route, found := strings.Cut(label, " ")
	if !found || method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return []attribute.KeyValue{semconv.HTTPRoute(label)}
	}
	return []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route)}
}

// serverAttributes returns the attributes of a server's address, as the Redis client has
// it.
func serverAttributes(address string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			return []attribute.KeyValue{semconv.ServerAddress(clean(host)), semconv.ServerPort(int(n))}
		}
	}
	return []attribute.KeyValue{semconv.ServerAddress(clean(address))}
}
