package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
)

//go:embed page
var page embed.FS

// types are the kinds of files of the page. The machine's own table may lack some.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".webmanifest": "application/manifest+json",
}

// file is a file of the page with its hash, by which a browser knows that it has it already.
type file struct {
	content   []byte
	kind, tag string
}

// files serves the page.
func files() http.Handler {
	known := map[string]file{}
	_ = fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error { // it is in memory
		if err != nil || d.IsDir() {
			return err
		}
		content, err := page.ReadFile(name)
		kind := types[path.Ext(name)]
		if kind == "" {
			kind = mime.TypeByExtension(path.Ext(name))
		}
		sum := sha256.Sum256(content)
		known[strings.TrimPrefix(name, "page")] = file{content, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	known["/"] = known["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := known[r.URL.Path]
		if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeError(w, &api.Error{Text: "the page has no such file", Err: api.ErrNotFound})
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}
