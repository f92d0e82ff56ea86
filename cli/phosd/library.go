package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cgo/cudadrv"
)

// pathVariable names the folders in which the loader looks first.
const pathVariable = "LD_LIBRARY_PATH"

// loaderCache lists the libraries that the loader finds without pathVariable.
const loaderCache = "/etc/ld.so.cache"

// driverPlaces are folders with drivers that the loader does not search: of container images, of
// clusters, and of distributions without /usr/lib. Usually the environment names them, but services
// and sudo do not pass it on.
var driverPlaces = []string{
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/run/opengl-driver/lib",
	"/usr/lib/wsl/lib",
}

// libraryPath returns the value of pathVariable for a process that opens a driver. A configured
// driver needs it too, because drivers load more of their libraries by name, as the PTX compiler.
//
// It is this process's own value, without folders in which the driver is our own library: programs
// have these to find libphos.so instead of the machine's driver.
func libraryPath(named string) string {
	folders := slices.DeleteFunc(filepath.SplitList(os.Getenv(pathVariable)), func(folder string) bool {
		return !filepath.IsAbs(folder) || holdsOurs(folder)
	})
	switch {
	case named != "" && !holdsOurs(filepath.Dir(named)):
		folders = append(folders, filepath.Dir(named))
	case named == "" && !slices.ContainsFunc(folders, holdsDriver) && !cached(loaderCache):
		if i := slices.IndexFunc(driverPlaces, holdsDriver); i >= 0 {
			folders = append(folders, driverPlaces[i])
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// holdsDriver reports whether a folder has a driver, or our own library in its place.
func holdsDriver(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, cudadrv.DefaultLibrary))
	return err == nil
}

// holdsOurs reports whether the driver in a folder is our own library.
func holdsOurs(folder string) bool {
	at, err := filepath.EvalSymlinks(filepath.Join(folder, cudadrv.DefaultLibrary))
	return err == nil && filepath.Base(at) == "libphos.so"
}

// cached reports whether the loader's cache lists a driver.
func cached(cache string) bool {
	names, err := os.ReadFile(cache)
	return err == nil && bytes.Contains(names, []byte(cudadrv.DefaultLibrary+"\x00"))
}
