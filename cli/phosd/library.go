package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cgo/cudadrv"
)

// pathVariable tells the loader where to look for libraries before it looks anywhere else.
const pathVariable = "LD_LIBRARY_PATH"

// loaderCache lists what the loader finds by itself.
const loaderCache = "/etc/ld.so.cache"

// driverPlaces are folders in which drivers are put that the loader does not find by itself: by
// makers of container images and of clusters, and by distributions without /usr/lib. What is said
// of them comes by the environment, which services and sudo do not pass on.
var driverPlaces = []string{
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/run/opengl-driver/lib",
	"/usr/lib/wsl/lib",
}

// libraryPath is where who opens a driver has to look for it, as the value of pathVariable; for a
// driver that was named too, as drivers open more libraries of theirs by name: what compiles PTX is
// one.
//
// It is what this process was told, without folders where the driver is our own library, which
// programs are given to find it instead of the machine's.
func libraryPath(named string) string {
	folders := slices.DeleteFunc(filepath.SplitList(os.Getenv(pathVariable)), func(folder string) bool {
		return !filepath.IsAbs(folder) || isLibphos(folder)
	})
	switch {
	case named != "" && !isLibphos(filepath.Dir(named)):
		folders = append(folders, filepath.Dir(named))
	case named == "" && !slices.ContainsFunc(folders, holdsDriver) && !cacheHasDriver(loaderCache):
		if i := slices.IndexFunc(driverPlaces, holdsDriver); i >= 0 {
			folders = append(folders, driverPlaces[i])
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// holdsDriver reports whether there is a driver in a folder, ours or another.
func holdsDriver(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, cudadrv.DefaultLibrary))
	return err == nil
}

// isLibphos reports whether the driver in a folder is our own library.
func isLibphos(folder string) bool {
	at, err := filepath.EvalSymlinks(filepath.Join(folder, cudadrv.DefaultLibrary))
	return err == nil && filepath.Base(at) == "libphos.so"
}

// cacheHasDriver reports whether the loader's cache has a driver.
func cacheHasDriver(cache string) bool {
	names, err := os.ReadFile(cache)
	return err == nil && bytes.Contains(names, []byte(cudadrv.DefaultLibrary+"\x00"))
}
