package redisstore_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// authority signs certificates. Its own is in the file ca.pem of a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca")
	return a
}

// issue writes a certificate for a name, name.pem, and its key, name.key.
func (a *authority) issue(t *testing.T, name string) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	parent, signer := a.cert, a.key
	if parent == nil { // the authority itself
		template.IsCA, template.BasicConstraintsValid = true, true
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	for file, block := range map[string]*pem.Block{
		a.file(name + ".pem"): {Type: "CERTIFICATE", Bytes: der},
		a.file(name + ".key"): {Type: "PRIVATE KEY", Bytes: private},
	} {
		must(os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	must(err)
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// TestTLS: a client as docs/redis.md has it counts on a real server over TLS, as the user of
// docs/operations.md, with a certificate where the server asks for one. Check tells why it
// cannot count otherwise.
func TestTLS(t *testing.T) {
	t.Parallel()
	noLeaks(t)
	ca := newAuthority(t)
	ca.issue(t, "redis.internal")
	ca.issue(t, "api")
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, "--tls-port", fmt.Sprint(port), "--tls-ca-cert-file", ca.file("ca.pem"),
		"--tls-cert-file", ca.file("redis.internal.pem"), "--tls-key-file", ca.file("redis.internal.key"))
	root := admin(t, server.Addr())
	if err := root.Do(ctx, documentedACL(t)...).Err(); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	certificate, err := tls.LoadX509KeyPair(ca.file("api.pem"), ca.file("api.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		asks   string // tls-auth-clients
		config *tls.Config
		says   string // nothing: all is well
	}{
		{"without a certificate", "no", &tls.Config{RootCAs: roots}, ""},
		{"with a certificate", "yes", &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}, ""},
		// Up to TLS 1.2 a client hears of it before it sends a command.
		{"the certificate is missing", "yes", &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12}, "Certificates"},
		{"another authority", "no", &tls.Config{}, "unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := root.ConfigSet(ctx, "tls-auth-clients", c.asks).Err(); err != nil {
				t.Fatal(err)
			}
			c.config.ServerName, c.config.MinVersion = "redis.internal", tls.VersionTLS12
			rdb := redis.NewClient(&redis.Options{
				Addr:     net.JoinHostPort("127.0.0.1", fmt.Sprint(port)),
				Username: "api", Password: "password", TLSConfig: c.config,
			})
			defer rdb.Close()
			store := redisstore.New(rdb)
			l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerMinute(100)}, Timeout: patient})
			err, d := store.Check(ctx), l.Allow(ctx, "k")
			t.Log(err)
			if c.says == "" && (err != nil || d.Err != nil) {
				t.Errorf("Check says %v, and a decision %v", err, d.Err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || d.Err == nil) {
				t.Errorf("Check says %v, want %q; a decision says %v", err, c.says, d.Err)
			}
		})
	}
}
