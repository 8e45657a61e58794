package sashotel

import (
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Attributes that are used more than once.
const (
	limiterKey    = attribute.Key("sash.limiter")
	ruleKey       = attribute.Key("sash.rule")
	allowedKey    = attribute.Key("sash.allowed")
	storeKey      = attribute.Key("sash.store")
	sourceKey     = attribute.Key("sash.source")
	noticeCodeKey = attribute.Key("sash.notice.code")
)

// attributes returns the attributes for labels and their values.
func attributes(labels, values []string) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(values)+1)
	for i, value := range values {
		switch label := labels[i]; label {
		case "allowed":
			all = append(all, allowedKey.Bool(value == "true"))
		case "route":
			all = append(all, routeAttributes(value)...)
		case "server":
			all = append(all, serverAttributes(value)...)
		case "kind":
			all = append(all, semconv.ErrorTypeKey.String(value))
		case "code":
			all = append(all, noticeCodeKey.String(value))
		case "state":
			all = append(all, attribute.String("sash.breaker.state", value))
		default:
			all = append(all, attribute.String("sash."+label, value))
		}
	}
	return all
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
			return []attribute.KeyValue{semconv.ServerAddress(host), semconv.ServerPort(int(n))}
		}
	}
	return []attribute.KeyValue{semconv.ServerAddress(address)}
}
