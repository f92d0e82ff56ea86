package images

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
)

// SendMain is the main function of the role that reads. The arguments are those after the role.
// Standard input has the hashes that the receiver has.
func SendMain(arguments []string) int {
	var order SendOrder
	if len(arguments) != 1 || json.Unmarshal([]byte(arguments[0]), &order) != nil {
		fmt.Fprintln(os.Stderr, "agents send images, with an order as the argument")
		return 2
	}
	err := send(context.Background(), order, os.Stdin, os.Stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, errChanged) {
		return exitChanged
	}
	return 1
}

// streamBytes is the size of buffers and pipes.
const streamBytes = 1 << 20

// send writes an image, unless the order has none, and working directories.
func send(ctx context.Context, order SendOrder, in io.Reader, to io.Writer) error {
	has, err := readHashes(bufio.NewReaderSize(in, streamBytes))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, streamBytes)
	if order.Dir != "" {
		if err := sendImage(ctx, order, has, out); err != nil {
			return err
		}
	}
	if err := pack(order.Work, out, func(left string) { fmt.Fprintln(os.Stderr, "left out:", left) }); err != nil {
		return err
	}
	if _, err := out.WriteString(endMark); err != nil {
		return err
	}
	return out.Flush()
}

// sendImage writes an image without what the receiver has.
func sendImage(ctx context.Context, order SendOrder, has map[image.Hash]struct{}, out io.Writer) error {
	dir, err := openImage(order.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return store.WriteMissing(ctx, dir, order.Generation, has, out)
}

// openImage opens an image directory, which may not be a link.
func openImage(path string) (*store.Dir, error) {
	file, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return store.Open(file)
}

// openDirectory opens a directory, which may not be a link.
func openDirectory(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// readHashes reads hashes up to the end.
func readHashes(from io.Reader) (map[image.Hash]struct{}, error) {
	has := map[image.Hash]struct{}{}
	for {
		var hash image.Hash
		switch _, err := io.ReadFull(from, hash[:]); {
		case errors.Is(err, io.EOF):
			return has, nil
		case err != nil:
			return nil, fmt.Errorf("contents of the receiver: %w", err)
		case len(has) >= maxHashes:
			return nil, fmt.Errorf("contents of the receiver: more than %d", maxHashes)
		}
		has[hash] = struct{}{}
	}
}
