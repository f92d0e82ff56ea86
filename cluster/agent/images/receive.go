package images

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
)

// ReceiveMain is the main function of the role that writes. The arguments are those after the role.
// It writes an offer and hashes to standard output, closes that, and reads the answer from standard
// input.
func ReceiveMain(arguments []string) int {
	var order ReceiveOrder
	if len(arguments) != 1 || json.Unmarshal([]byte(arguments[0]), &order) != nil {
		fmt.Fprintln(os.Stderr, "agents receive images, with an order as the argument")
		return 2
	}
	if err := receive(context.Background(), order, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// receive says what is there, and writes what comes.
func receive(ctx context.Context, order ReceiveOrder, in io.Reader, out io.WriteCloser) error {
	file, err := openDirectory(order.Dir)
	if err != nil {
		return err
	}
	defer file.Close()
	dir, err := store.Init(file)
	if err != nil {
		return err
	}
	defer dir.Close()
	generations, err := dir.Generations()
	if err != nil {
		return err
	}
	complete := slices.Contains(generations, order.Generation)
	others, closeOthers := openOthers(order.Others)
	defer closeOthers()
	if err := offerAll(out, complete, append(others, dir)); err != nil {
		return err
	}
	from := bufio.NewReaderSize(in, streamBytes)
	if !complete {
		if err := readImage(ctx, order, dir, others, from); err != nil {
			return err
		}
	}
	if err := unpack(order.Work, from); err != nil {
		return err
	}
	if err := expectEnd(from); err != nil || order.Keep == 0 {
		return err
	}
	_, err = dir.Prune(ctx, store.Keep{Newest: order.Keep})
	return err
}

// openOthers opens the images that may have the same contents. One that cannot be read has none.
func openOthers(paths []string) (dirs []*store.Dir, closeAll func()) {
	for _, path := range paths {
		if dir, err := openImage(path); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs, func() {
		for _, dir := range dirs {
			dir.Close()
		}
	}
}

// offerAll writes what is there. With a complete image no content is wanted.
func offerAll(out io.WriteCloser, complete bool, dirs []*store.Dir) error {
	has := map[image.Hash]struct{}{}
	for _, dir := range dirs {
		if complete {
			break
		}
		_ = dir.AddContents(has) // what cannot be read is sent
	}
	to := bufio.NewWriterSize(out, streamBytes)
	if err := json.NewEncoder(to).Encode(offer{Complete: complete}); err != nil {
		return err
	}
	count := 0
	for hash := range has {
		if count++; count > maxHashes {
			break // more is sent than needed
		}
		if _, err := to.Write(hash[:]); err != nil {
			return err
		}
	}
	return errors.Join(to.Flush(), out.Close())
}

// readImage commits an image, if it is the one that is wanted.
func readImage(ctx context.Context, order ReceiveOrder, dir *store.Dir, others []*store.Dir, from io.Reader) error {
	generation, err := store.ReadMissing(ctx, from, dir, others)
	if err == nil && generation != order.Generation {
		err = fmt.Errorf("the other node has sent generation %d, and not %d", generation, order.Generation)
	}
	return err
}

// expectEnd returns an error unless only the mark follows.
func expectEnd(from io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(from, int64(len(endMark))+1))
	if err == nil && string(rest) != endMark {
		err = ErrCutShort
	}
	return err
}
