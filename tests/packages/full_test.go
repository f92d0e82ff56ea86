package packages

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// needFull skips what takes longer than the sample.
func needFull(t *testing.T) {
	t.Helper()
	if !full() {
		t.Skip("PACKAGE=full is not set")
	}
}

// TestLintian: Debian's checker finds nothing wrong in the packages.
func TestLintian(t *testing.T) {
	needFull(t)
	dist := packages(t)
	if said := shell(t, `lintian --allow-root --no-cfg --fail-on error,warning "`+dist+`"/*.deb`); said != "" {
		t.Error(said)
	}
}

// TestReproducible builds and packages the same commit in another folder, and gets the same bytes.
func TestReproducible(t *testing.T) {
	needFull(t)
	dist := packages(t)
	other := t.TempDir()
	shell(t, `cd "`+harness.Path()+`"; CALLED_FROM=$PWD
		export CRIU=
		for part in lib go shim criu verbs roots package; do . scripts/$part.sh; done
		DIST="`+other+`" CACHE="`+other+`/cache" PACKAGE_EFFORT=0 package_debs >&2`)
	shell(t, `cmp "`+dist+`"/phos_*.deb "`+other+`"/phos_*.deb`)
}
