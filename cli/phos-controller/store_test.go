package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// TestPeers: what is printed is a configuration that has the peers.
func TestPeers(t *testing.T) {
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "peers")
	if err := makePeers([]string{dir, "a=10.0.0.1", "b=10.0.0.2", "c=fd00::3"}, &out); err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(out.String(), "\n\n")
	c := defaults()
	if err := toml.Unmarshal([]byte(text), &c); err != nil || !found {
		t.Fatalf("%v in %s", err, out.String())
	}
	if err := c.Store.check("b"); err != nil || c.Store.Peers["c"] != "fd00::3" {
		t.Errorf("got %+v, %v", c.Store, err)
	}
	urls := c.Store.members().PeerURLs
	if urls["a"] != "https://10.0.0.1:7414" || urls["c"] != "https://[fd00::3]:7414" {
		t.Errorf("got %v", urls)
	}
	for _, arguments := range [][]string{nil, {dir}, {dir, "a"}, {dir, "=1.2.3.4"}, {dir, "a=host"}} {
		if err := makePeers(arguments, &out); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v", arguments, err)
		}
	}
}

// TestStoreConfig: what cannot work is refused by the names of its keys.
func TestStoreConfig(t *testing.T) {
	three := map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
	for _, test := range []struct {
		config storeConfig
		want   string
	}{
		{storeConfig{}, ""},
		{storeConfig{Peers: three}, ""},
		{storeConfig{Endpoints: []string{"https://e:2379"}}, ""},
		{storeConfig{Peers: three, Endpoints: []string{"https://e:2379"}}, "store.endpoints"},
		{storeConfig{Peers: map[string]string{"x": "10.0.0.1"}}, "controller.name"},
		{storeConfig{Peers: map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}}, "want 3 or 5"},
		{storeConfig{Peers: map[string]string{"a": "host"}}, "want an IP address"},
		{storeConfig{QuotaMiB: leastQuotaMiB - 1}, "store.quota_mib is 7"},
	} {
		if test.config.QuotaMiB == 0 {
			test.config.QuotaMiB = defaultStore.QuotaMiB
		}
		err := test.config.check("a")
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.config, err, test.want)
		}
	}
}
