package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLibraryPath: a driver is found wherever the environment says it is, and where drivers are
// put, but our own library never is it.
func TestLibraryPath(t *testing.T) {
	root := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	for _, folder := range []string{"phos/lib", "installed", "driver", "empty", "place"} {
		if err := os.MkdirAll(at(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{
		"phos/libphos.so", "installed/libphos.so", "driver/libcuda.so.580",
		"place/libcuda.so.1",
	} {
		if err := os.WriteFile(at(file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"phos/lib/libcuda.so.1": "../libphos.so", "installed/libcuda.so.1": "libphos.so", "driver/libcuda.so.1": "libcuda.so.580",
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	had := driverPlaces
	driverPlaces = []string{at("nowhere"), at("place")}
	t.Cleanup(func() { driverPlaces = had })
	found := at("place")
	if cached(loaderCache) {
		found = "" // this machine has a driver
	}
	list := func(folders ...string) string { return strings.Join(folders, ":") }
	for _, test := range []struct{ name, told, named, want string }{
		{"nothing is told", "", "", found},
		{
			"the driver behind ours", list(at("phos/lib"), at("installed"), at("empty"), at("driver")), "",
			list(at("empty"), at("driver")),
		},
		{"only ours", at("phos/lib"), "", found},
		{"places that depend on where this is", list("", "lib", at("driver")), "", at("driver")},
		{"a driver that was named", "", at("driver", "libcuda.so.1"), at("driver")},
		{"ours was named", at("empty"), at("phos/lib/libcuda.so.1"), at("empty")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(pathVariable, test.told)
			if got := libraryPath(test.named); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCached: the loader's cache has names that end with zero.
func TestCached(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	for text, want := range map[string]bool{
		"glibc-ld.so.cache1.1\x00libcuda.so.1\x00/usr/lib/libcuda.so.1\x00": true,
		"glibc-ld.so.cache1.1\x00libcudart.so.12\x00libcuda.so.1.1\x00":     false,
		"": false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := cached(file); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if cached(file + ".missing") {
		t.Error("missing cache: got true, want false")
	}
}
