package linelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// create makes a log for a test.
func create(t *testing.T, limits Limits) (w *Writer, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "log")
	w, err := Create(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, dir
}

// shown is an entry as tests compare it.
func shown(e Entry) string {
	mark := ""
	if e.Partial {
		mark = "+"
	}
	if e.Lost != nil {
		return fmt.Sprintf("lost %d: %s", e.Lost.Lines, e.Lost.Reason)
	}
	return fmt.Sprintf("%d %s%s %s", e.Process, e.Stream, mark, e.Text)
}

// all reads what is there.
func all(t *testing.T, r *Reader) (found []string) {
	t.Helper()
	if err := r.readAll(func(e Entry) error { found = append(found, shown(e)); return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no line waits so long that its beginning is written
		w, dir := create(t, Limits{LineBytes: 64})
		long := strings.Repeat("x", 64)
		out, err := w.Source(0, Out), w.Source(3, Err)
		out.Write([]byte("one\ntw"))
		err.Write([]byte("\xff\x00\r\n\n"))
		out.Write([]byte("o\n"))
		out.Write([]byte(long + "y\n" + long + "\nlast"))
		r := Open(dir, Position{})
		defer r.Close()
		same(t, all(t, r), "0 out one", "3 err \xff\x00\r", "3 err ", "0 out two",
			"0 out+ "+long, "0 out y", "0 out "+long)
		if r.Ended() {
			t.Error("ended while it is written")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		same(t, all(t, r), "0 out+ last")
		if !r.Ended() {
			t.Error("not ended")
		}
		out.Write([]byte("too late\n"))
		same(t, all(t, r))
	})
}

// TestPartial: the beginning of a line is there before its end.
func TestPartial(t *testing.T) {
	w, dir := create(t, Limits{})
	bar := w.Source(1, Err)
	bar.Write([]byte("\r10%"))
	ctx, cancel := context.WithCancel(t.Context())
	r := Open(dir, Position{})
	defer r.Close()
	var got []string
	err := r.Follow(ctx, func(e Entry) error {
		got = append(got, shown(e))
		if len(got) == 1 {
			bar.Write([]byte("\r20%\n"))
			return nil
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, "1 err+ \r10%", "1 err \r20%")
}

// TestEachLineWaits: another line's wait does not cut a line that has just begun.
func TestEachLineWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := create(t, Limits{})
		source, other := w.Source(0, Out), w.Source(1, Out)
		source.Write([]byte("one\ntw"))
		other.Write([]byte("half a "))
		time.Sleep(partialTime - time.Millisecond)
		source.Write([]byte("o\nthr"))
		time.Sleep(partialTime - time.Millisecond)
		source.Write([]byte("ee\nfou"))
		time.Sleep(partialTime + time.Millisecond)
		source.Write([]byte("r\n"))
		other.Write([]byte("line\n"))
		r := Open(dir, Position{})
		defer r.Close()
		same(t, all(t, r), "0 out one", "0 out two", "1 out+ half a ", "0 out three", "0 out+ fou",
			"0 out r", "1 out line")
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPositions: a Reader goes on where another one was.
func TestPositions(t *testing.T) {
	w, dir := create(t, Limits{TotalBytes: leastTotal})
	source := w.Source(0, Out)
	const lines = 5000 // several segments
	for i := range lines {
		source.Write(fmt.Appendf(nil, "line %d\n", i))
	}
	first := Open(dir, Position{})
	defer first.Close()
	for i := range lines {
		e, err := first.Next()
		if err != nil || string(e.Text) != fmt.Sprintf("line %d", i) || e.Next.Line != int64(i+1) {
			t.Fatalf("entry %d: %+v, %v", i, e, err)
		}
		if i%701 != 0 {
			continue
		}
		second := Open(dir, e.Next)
		next, err := second.Next()
		if want := fmt.Sprintf("line %d", i+1); err != nil || string(next.Text) != want || next.Next.Line != int64(i+2) {
			t.Errorf("from %+v: %+v, %v, want %s", e.Next, next, err, want)
		}
		_ = second.Close()
	}
}

// TestRotation: the files stay below the limit, and readers are told how many lines were dropped,
// early and late ones.
func TestRotation(t *testing.T) {
	w, dir := create(t, Limits{TotalBytes: leastTotal})
	source := w.Source(0, Out)
	early := Open(dir, Position{})
	defer early.Close()
	const lines = 100_000
	var largest, seen, dropped int64
	next := 0
	take := func(e Entry) error {
		if e.Lost != nil {
			dropped += e.Lost.Lines
			next += int(e.Lost.Lines)
			return nil
		}
		if want := fmt.Sprintf("line %d of the flood", next); string(e.Text) != want {
			return fmt.Errorf("%q instead of %q", e.Text, want)
		}
		seen++
		next++
		return nil
	}
	for i := range lines {
		source.Write(fmt.Appendf(nil, "line %d of the flood\n", i))
		if i%40_000 == 100 {
			if err := early.readAll(take); err != nil {
				t.Fatal(err)
			}
		}
		if i%1000 == 0 {
			largest = max(largest, total(t, dir))
		}
	}
	if err := errors.Join(w.Close(), early.readAll(take)); err != nil {
		t.Fatal(err)
	}
	if seen+dropped != lines || dropped == 0 || seen == 0 || !early.Ended() {
		t.Errorf("seen %d and dropped %d of %d", seen, dropped, lines)
	}
	if largest > leastTotal {
		t.Errorf("%d bytes, above the limit", largest)
	}
	late := Open(dir, Position{})
	defer late.Close()
	seen, dropped, next = 0, 0, 0
	if err := late.readAll(take); err != nil {
		t.Fatal(err)
	}
	if seen+dropped != lines || dropped == 0 || seen == 0 {
		t.Errorf("late: seen %d and dropped %d of %d", seen, dropped, lines)
	}
}

// total is what the files of a log take.
func total(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	files, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range files {
		bytes += each.bytes
	}
	return bytes
}

// TestFollow: a Reader sees each line while it is written by another goroutine, and the end.
func TestFollow(t *testing.T) {
	w, dir := create(t, Limits{TotalBytes: leastTotal})
	const lines = 30_000
	go func() {
		source := w.Source(0, Out)
		for i := range lines {
			source.Write(fmt.Appendf(nil, "%d\n", i))
		}
		_ = w.Close()
	}()
	r := Open(dir, Position{})
	defer r.Close()
	count := int64(0)
	err := r.Follow(t.Context(), func(e Entry) error {
		if e.Lost != nil {
			count += e.Lost.Lines // this Reader was too slow
			return nil
		}
		if string(e.Text) != fmt.Sprint(count) {
			return fmt.Errorf("%s instead of %d", e.Text, count)
		}
		count++
		return nil
	})
	if err != nil || count != lines {
		t.Errorf("%d lines, %v", count, err)
	}
}

// TestTorn: what a killed Writer has left of its last record is not shown, and Seal ends the log.
func TestTorn(t *testing.T) {
	w, dir := create(t, Limits{})
	w.Source(0, Out).Write([]byte("whole\n"))
	files, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := files[0].path(dir)
	appendTo(t, path, "1700000000000000000 0 out . to")
	r := Open(dir, Position{})
	defer r.Close()
	same(t, all(t, r), "0 out whole")
	if err := Seal(dir); err != nil {
		t.Fatal(err)
	}
	same(t, all(t, r))
	again := Open(dir, Position{})
	defer again.Close()
	same(t, all(t, again), "0 out whole")
	if !again.Ended() {
		t.Error("not ended after Seal")
	}
	if err := Seal(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no log: %v", err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamaged: what is no record is counted, also if it is longer than any record, and the rest is
// read.
func TestDamaged(t *testing.T) {
	w, dir := create(t, Limits{})
	source := w.Source(0, Out)
	source.Write([]byte("before\n"))
	files, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, files[0].path(dir), "nonsense\n"+strings.Repeat("\x00", 3*maxRecord)+"\n")
	appendTo(t, files[0].path(dir), "1 70000 out . x\n1 0 tty . x\n1 0 out ? x\n1 - lost . -1 2 x\n1 0 end . \n")
	source.Write([]byte("after\n"))
	r := Open(dir, Position{})
	defer r.Close()
	want := []string{"0 out before"}
	for range 7 {
		want = append(want, "lost 1: "+Damaged)
	}
	same(t, all(t, r), append(want, "0 out after")...)
}

// TestFull: lines that the disk has no room for are counted, and later ones are kept.
func TestFull(t *testing.T) {
	w, dir := create(t, Limits{})
	source := w.Source(0, Out)
	source.Write([]byte("before\n"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	kept := w.file
	w.file = full
	source.Write([]byte("one\ntwo\n"))
	w.file = kept
	source.Write([]byte("after\n"))
	r := Open(dir, Position{})
	defer r.Close()
	same(t, all(t, r), "0 out before", "lost 2: no space left on device", "0 out after")
}

func TestReadBetween(t *testing.T) {
	dir := t.TempDir()
	text := appendHeader(nil, 0)
	for _, second := range []int64{10, 20, 15, 30} { // the clock went back once
		text = appendText(text, &Entry{Time: time.Unix(second, 0), Text: fmt.Append(nil, second)})
	}
	if err := os.WriteFile(segment{}.path(dir), text, 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := ReadBetween(dir, time.Unix(15, 0), time.Unix(30, 0), func(e Entry) error {
		got = append(got, shown(e))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, "0 out 20", "0 out 15")
}

func TestVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(segment{}.path(dir), []byte("phos log 2 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := Open(dir, Position{})
	defer r.Close()
	if e, err := r.Next(); !errors.Is(err, ErrVersion) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestNoLog(t *testing.T) {
	r := Open(filepath.Join(t.TempDir(), "none"), Position{})
	if e, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestLimits(t *testing.T) {
	for _, bad := range []Limits{{TotalBytes: 1}, {TotalBytes: -1}, {LineBytes: 1}, {LineBytes: 1 << 30}, {TotalBytes: 1 << 60}} {
		if _, err := bad.Check(); !errors.Is(err, ErrLimits) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestExact: the texts of a stream, with an end after each that is not Partial, are what was
// written.
func TestExact(t *testing.T) {
	w, dir := create(t, Limits{LineBytes: leastLine})
	source := w.Source(0, Out)
	var want []byte
	for i := range 300 {
		part := bytes.Repeat([]byte{byte(i), '\n', 'x'}, i%97)
		part = append(part, bytes.Repeat([]byte("y"), i)...)
		want = append(want, part...)
		source.Write(part)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []byte
	r := Open(dir, Position{})
	defer r.Close()
	err := r.readAll(func(e Entry) error {
		got = append(got, e.Text...)
		if !e.Partial {
			got = append(got, '\n')
		}
		return nil
	})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
	}
}
