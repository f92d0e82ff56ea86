//go:build cgo && counted

package cudadrv

/*
#cgo CFLAGS: -fprofile-arcs -ftest-coverage -fprofile-update=atomic -fprofile-info-section=phos_counters
#cgo LDFLAGS: -lgcov
#include <gcov.h>
#include <stdlib.h>
#include <string.h>

extern const struct gcov_info *const __start_phos_counters[], *const __stop_phos_counters[];

struct counts {
	const char *name;
	char *bytes;
	size_t length;
};

static void counts_name(const char *name, void *counts)
{
	((struct counts *)counts)->name = name;
}

static void counts_add(const void *bytes, unsigned length, void *counts)
{
	struct counts *c = counts;
	char *longer = realloc(c->bytes, c->length + length);
	if (longer == NULL)
		abort();
	memcpy(longer + c->length, bytes, length);
	c->bytes = longer;
	c->length += length;
}

static void *counts_room(unsigned length, void *counts)
{
	(void)counts;
	return malloc(length);
}

static int counts_files(void)
{
	return (int)(__stop_phos_counters - __start_phos_counters);
}

static struct counts counts_of(int file)
{
	struct counts c = {0};
	__gcov_info_to_gcda(__start_phos_counters[file], counts_name, counts_add, counts_room, &c);
	return c;
}
*/
import "C"

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"sync"
	"time"
	"unsafe"
)

// countsFolder is set when scripts/cover.sh links a program. The program then writes its coverage
// of the backend for real GPUs there, repeatedly, because most processes of the tests are killed.
var countsFolder string

// counts is the content written last, by file.
var counts = struct {
	sync.Mutex
	process string
	written map[string][]byte
}{process: fmt.Sprintf("%d.%d", os.Getpid(), time.Now().UnixNano()), written: map[string][]byte{}}

func init() {
	if countsFolder == "" {
		return
	}
	// The runtime writes the final counters at exit; without GOCOVERDIR it prints a warning.
	_ = os.Setenv("GOCOVERDIR", filepath.Join(countsFolder, "go"))
	go func() {
		for {
			time.Sleep(20 * time.Millisecond)
			WriteCounts()
		}
	}()
}

// WriteCounts writes the coverage so far.
func WriteCounts() {
	counts.Lock()
	defer counts.Unlock()
	writeGo()
	for i := range int(C.counts_files()) {
		c := C.counts_of(C.int(i))
		path := C.GoString(c.name)
		writeCounts(
			filepath.Join("c", filepath.Base(filepath.Dir(path)), counts.process, filepath.Base(path)),
			C.GoBytes(unsafe.Pointer(c.bytes), C.int(c.length)),
		)
		C.free(unsafe.Pointer(c.bytes))
	}
}

// writeGo writes the files that "go tool covdata" reads.
func writeGo() {
	var meta, counters bytes.Buffer
	if coverage.WriteMeta(&meta) != nil || coverage.WriteCounters(&counters) != nil {
		return
	}
	hash := hex.EncodeToString(meta.Bytes()[24:40]) // offset of the hash in the header
	writeCounts("go/covmeta."+hash, meta.Bytes())
	writeCounts("go/covcounters."+hash+"."+counts.process, counters.Bytes())
}

// writeCounts replaces a file atomically, so that a killed process leaves the previous content.
func writeCounts(name string, content []byte) {
	if bytes.Equal(counts.written[name], content) {
		return
	}
	path := filepath.Join(countsFolder, name)
	next := filepath.Join(countsFolder, "next."+counts.process)
	if os.MkdirAll(filepath.Dir(path), 0o755) == nil && os.WriteFile(next, content, 0o644) == nil &&
		os.Rename(next, path) == nil {
		counts.written[name] = content
	}
}
