package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLibraryPath: the path has the folders of the environment and the usual places, but never a
// folder of our own library.
func TestLibraryPath(t *testing.T) {
	root := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	for _, folder := range []string{"phos/lib", "installed", "driver", "empty", "place"} {
		if err := os.MkdirAll(at(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"phos/libphos.so", "installed/libphos.so", "driver/libcuda.so.580", "place/libcuda.so.1"} {
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
	before := driverPlaces
	driverPlaces = []string{at("nowhere"), at("place")}
	t.Cleanup(func() { driverPlaces = before })
	found := at("place")
	if cacheHasDriver(loaderCache) {
		found = "" // this machine has a driver
	}
	list := func(folders ...string) string { return strings.Join(folders, ":") }
	for _, test := range []struct{ name, path, named, want string }{
		{"nothing is set", "", "", found},
		{"the driver after our library", list(at("phos/lib"), at("installed"), at("empty"), at("driver")), "", list(at("empty"), at("driver"))},
		{"only our library", at("phos/lib"), "", found},
		{"relative folders", list("", "lib", at("driver")), "", at("driver")},
		{"a driver is named", "", at("driver", "libcuda.so.1"), at("driver")},
		{"our library is named", at("empty"), at("phos/lib/libcuda.so.1"), at("empty")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(pathVariable, test.path)
			if got := libraryPath(test.named); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCacheHasDriver: names in the loader's cache end with a zero byte.
func TestCacheHasDriver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	for text, want := range map[string]bool{
		"glibc-ld.so.cache1.1\x00libcuda.so.1\x00/usr/lib/libcuda.so.1\x00": true,
		"glibc-ld.so.cache1.1\x00libcudart.so.12\x00libcuda.so.1.1\x00":     false,
		"": false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := cacheHasDriver(file); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if cacheHasDriver(file + ".missing") {
		t.Error("missing cache: got true, want false")
	}
}
