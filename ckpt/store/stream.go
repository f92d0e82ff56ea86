package store

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// WriteStream writes one generation, with all contents that it needs, as a stream for a pipe. 0
// means the newest.
func WriteStream(ctx context.Context, d *Dir, generation uint64, w io.Writer) error {
	return WriteMissing(ctx, d, generation, nil, w)
}

// WriteHead is WriteStream without memory and saved files: what says which there are.
func WriteHead(ctx context.Context, d *Dir, generation uint64, w io.Writer) error {
	return writeContents(ctx, d, generation, &sending{ctx: ctx, to: w, has: map[image.Hash]struct{}{}, wants: inHead})
}

// WriteMissing is WriteStream without the contents that the receiver has, to which it adds what it
// writes. ReadMissing reads it.
func WriteMissing(ctx context.Context, d *Dir, generation uint64, has map[image.Hash]struct{}, w io.Writer) error {
	if has == nil {
		has = map[image.Hash]struct{}{}
	}
	all := func(string) bool { return true }
	return writeContents(ctx, d, generation, &sending{ctx: ctx, to: w, has: has, wants: all})
}

func writeContents(ctx context.Context, d *Dir, generation uint64, s *sending) error {
	if err := s.write(ctx, d, generation); err != nil {
		return fmt.Errorf("write image %s to a stream: %w", d.Path(), err)
	}
	return nil
}

// write writes the stream of a generation.
func (s *sending) write(ctx context.Context, d *Dir, generation uint64) error {
	sealed, err := d.Manifest(generation)
	if err != nil {
		return err
	}
	m, _, err := image.Inspect(sealed)
	if err != nil {
		return err
	}
	reader, done, err := d.Reader()
	if err != nil {
		return err
	}
	defer done()
	frame := image.Frame{Magic: image.ManifestMagic, N: uint64(len(sealed))}
	if _, err := s.to.Write(slices.Concat(image.StreamHeader(), frame.Encode(), sealed)); err != nil {
		return err
	}
	s.reader = reader
	if err := walk(ctx, reader, m, s.send); err != nil {
		return err
	}
	_, err = s.to.Write(image.Frame{Magic: image.EndMagic, N: s.records}.Encode())
	return err
}

// sending writes those contents of a generation that are wanted and that the receiver does not
// have, each once.
type sending struct {
	ctx     context.Context
	reader  *contents.Reader
	to      io.Writer
	has     map[image.Hash]struct{}
	wants   func(of string) bool
	records uint64
}

func (s *sending) send(of string, chunk image.Chunk) error {
	if _, has := s.has[chunk.Hash]; has || !s.wants(of) {
		return nil
	}
	s.has[chunk.Hash] = struct{}{}
	s.records++
	if err := s.ctx.Err(); err != nil {
		return err
	}
	return s.reader.Send(chunk.Hash, s.to)
}

// ReadStream commits a generation that WriteStream wrote, with its number, and returns the number.
// It does not read beyond the end of the stream. On failure the image is as before.
func ReadStream(ctx context.Context, r io.Reader, d *Dir) (generation uint64, err error) {
	return ReadMissing(ctx, r, d, nil)
}

// ReadMissing is ReadStream for WriteMissing. What the stream lacks is copied from other images.
func ReadMissing(ctx context.Context, r io.Reader, d *Dir, others []*Dir) (generation uint64, err error) {
	return readInto(ctx, r, d, func(transaction *Transaction, sealed []byte) error {
		if len(others) == 0 {
			return nil
		}
		return transaction.fill(ctx, sealed, others)
	})
}

// ReadHead is ReadStream for WriteHead. The image can be checked, and not restored.
func ReadHead(ctx context.Context, r io.Reader, d *Dir) (generation uint64, err error) {
	return readInto(ctx, r, d, func(transaction *Transaction, _ []byte) error {
		transaction.headOnly = true
		return nil
	})
}

// readInto commits a generation of a stream, after complete has added what the stream lacks.
func readInto(
	ctx context.Context,
	r io.Reader,
	d *Dir,
	complete func(transaction *Transaction, sealed []byte) error,
) (generation uint64, err error) {
	transaction, err := d.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = transaction.Abort() }() // after a commit it does nothing
	sealed, err := receive(ctx, r, d, transaction)
	if err == nil {
		err = complete(transaction, sealed)
	}
	if err != nil {
		return 0, fmt.Errorf("read image from a stream into %s: %w", d.Path(), err)
	}
	return transaction.generation, transaction.Commit(ctx, sealed)
}

// receive fills a pack from a stream.
func receive(ctx context.Context, r io.Reader, d *Dir, transaction *Transaction) (sealed []byte, err error) {
	known, done, err := d.Reader()
	if err != nil {
		return nil, err
	}
	defer done()
	pack, err := transaction.NewPack()
	if err != nil {
		return nil, err
	}
	defer pack.Close() // the transaction syncs it
	in := &receiving{ctx: ctx, from: r, writer: contents.NewWriter(pack, known, contents.WriterOptions{})}
	if sealed, err = in.readAll(); err != nil {
		return nil, err
	}
	if err := in.writer.Close(); err != nil {
		return nil, err
	}
	m, _, err := image.Inspect(sealed)
	if err != nil {
		return nil, err
	}
	if m.Generation < transaction.generation || m.Generation > maxGeneration {
		return nil, fmt.Errorf(
			"generation %d: %w than the newest one there: receive it into another directory",
			m.Generation,
			ErrOlder,
		)
	}
	transaction.generation = m.Generation
	return sealed, nil
}

// receiving reads the records of a stream.
type receiving struct {
	ctx     context.Context
	from    io.Reader
	writer  *contents.Writer
	records uint64
}

func (in *receiving) read(raw []byte) error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	if _, err := io.ReadFull(in.from, raw); err != nil {
		return fmt.Errorf("the stream is truncated: %w", err)
	}
	return nil
}

// readAll reads up to the end of the stream and returns the sealed manifest.
func (in *receiving) readAll() (sealed []byte, err error) {
	head := make([]byte, max(image.StreamHeaderBytes, image.RecordHeaderBytes))
	if err := in.read(head[:image.StreamHeaderBytes]); err != nil {
		return nil, err
	}
	if err := image.CheckStreamHeader(head[:image.StreamHeaderBytes]); err != nil {
		return nil, err
	}
	for {
		if err := in.read(head[:image.FrameBytes]); err != nil {
			return nil, err
		}
		if string(head[:4]) == image.RecordMagic {
			if err := in.record(head); err != nil {
				return nil, err
			}
			continue
		}
		frame, err := image.DecodeFrame(head[:image.FrameBytes])
		switch {
		case err != nil:
			return nil, err
		case frame.Magic == image.EndMagic && frame.N == in.records && sealed != nil:
			return sealed, nil
		case frame.Magic == image.EndMagic || sealed != nil:
			return nil, fmt.Errorf("%w: the stream has %d contents, want %d", image.ErrMalformed, frame.N, in.records)
		}
		if sealed, err = io.ReadAll(io.LimitReader(in.from, int64(frame.N))); err != nil {
			return nil, err
		}
	}
}

// record reads, verifies and stores one content. The beginning of its header was already read.
func (in *receiving) record(head []byte) error {
	if err := in.read(head[image.FrameBytes:image.RecordHeaderBytes]); err != nil {
		return err
	}
	record, err := image.DecodeRecord(head[:image.RecordHeaderBytes])
	if err != nil {
		return err
	}
	if record.PadBytes != 0 {
		return fmt.Errorf("%w: a record of the stream is padded", image.ErrMalformed)
	}
	in.records++
	return in.writer.Receive(record, in.read)
}
