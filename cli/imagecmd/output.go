package imagecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
)

// Output is where a command writes its result and its progress.
type Output struct {
	Out, Err io.Writer
	// JSON selects one object for scripts, without progress.
	JSON bool
}

// json writes one object.
func (o Output) json(value any) error {
	encoder := json.NewEncoder(o.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func (o Output) table() *tabwriter.Writer { return tabwriter.NewWriter(o.Out, 0, 8, 2, ' ', 0) }

// now is replaced in tests.
var now = time.Now

// OpenDirectory opens the directory of an image, with the caller's rights.
func OpenDirectory(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w; name a directory that pos_cli --pre-dump or --dump wrote", err)
	case errors.Is(err, unix.ENOTDIR):
		err = fmt.Errorf("%w; an image is a directory, which pos_cli --pre-dump or --dump writes", err)
	}
	return dir, err
}

// openImage opens the image in a directory.
func openImage(path string) (*store.Dir, error) {
	dir, err := OpenDirectory(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return store.Open(dir)
}

// generation is a manifest with its seal and its text.
type generation struct {
	number   uint64
	text     []byte
	manifest *image.Manifest
	seal     image.Seal
}

// readGeneration reads a generation without checking its seal; 0 is the newest.
func readGeneration(d *store.Dir, n uint64) (generation, error) {
	if n == 0 {
		newest, err := d.Newest()
		if err != nil {
			return generation{}, err
		}
		n = newest
	}
	sealed, err := d.Manifest(n)
	if err != nil {
		return generation{}, err
	}
	g := generation{number: n}
	if g.manifest, g.seal, err = image.Inspect(sealed); err == nil && g.manifest.Generation != n {
		err = fmt.Errorf("%w: the manifest belongs to generation %d", image.ErrMalformed, g.manifest.Generation)
	}
	if err == nil {
		g.text, err = image.ManifestText(sealed)
	}
	if errors.Is(err, image.ErrMalformed) {
		err = fmt.Errorf(
			"generation %d of %s: %w; the other generations are not affected: pos_cli image list %s",
			n,
			d.Path(),
			err,
			d.Path(),
		)
	}
	return g, err
}

// generationsText lists generations: "generation 3", "generations 1, 2".
func generationsText(all []uint64) string {
	if len(all) == 1 {
		return fmt.Sprintf("generation %d", all[0])
	}
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = fmt.Sprint(n)
	}
	return "generations " + strings.Join(texts, ", ")
}

// userText returns the owner's name, as the image has it, or the uid.
func userText(o image.Owner) string {
	if o.Name == "" {
		return fmt.Sprintf("uid %d", o.UID)
	}
	return humanize.Shorten(o.Name, 24)
}
