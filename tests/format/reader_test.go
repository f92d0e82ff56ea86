package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
)

const twoMiB = 2 << 20

// number decodes a little-endian number of any length.
func number(raw []byte) (n uint64) {
	for i := len(raw) - 1; i >= 0; i-- {
		n = n<<8 | uint64(raw[i])
	}
	return n
}

// b3 returns the first bytes of a BLAKE3 hash.
func b3(bytes int, parts ...[]byte) []byte {
	sum := blake3.Sum256(bytesOf(parts...))
	return sum[:bytes]
}

func bytesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// require returns an error that quotes a rule of the page, unless it holds.
func require(holds bool, rule string, arguments ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("violates FORMAT.md: "+rule, arguments...)
}

// stored is one form of a content in a pack or a stream.
type stored struct {
	raw      []byte
	encoding byte
	content  uint64
}

// picture is an image that was read: manifests by number, and contents by hash, in every stored
// form.
type picture struct {
	store       string
	generations map[uint64]*manifest
	contents    map[string][]stored
}

// manifest has the fields that the reader needs.
type manifest struct {
	Version    int
	Generation uint64
	Owner      struct{ UID uint32 }
	Kinds      []string
	Processes  []struct{ GPU *struct{ Tree string } }
	CPU        struct{ Tree string }
	Files      []struct {
		Path, Hash string
		Bytes      uint64
	}
}

// readDirectory implements section 2.
func readDirectory(dir string, key [32]byte) (*picture, error) {
	marker, err := os.ReadFile(filepath.Join(dir, "phos-image"))
	if err != nil {
		return nil, err
	}
	lines := regexp.MustCompile(`^phos-image 0001\nstore ([0-9a-f]{32})\ncheck ([0-9a-f]{32})\n$`).FindSubmatch(marker)
	if lines == nil || len(marker) != 94 || hex.EncodeToString(b3(16, marker[:55])) != string(lines[2]) {
		return nil, errors.New("the marker differs from the page")
	}
	p := &picture{store: string(lines[1]), generations: map[uint64]*manifest{}, contents: map[string][]stored{}}
	files, err := os.ReadDir(filepath.Join(dir, "generations"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		n, err := strconv.ParseUint(file.Name(), 10, 63)
		if err != nil || fmt.Sprintf("%06d", n) != file.Name() {
			return nil, fmt.Errorf("generation %q", file.Name())
		}
		raw, err := os.ReadFile(filepath.Join(dir, "generations", file.Name()))
		if err != nil {
			return nil, err
		}
		if p.generations[n], err = readGeneration(raw, key); err != nil {
			return nil, err
		}
		if err := require(p.generations[n].Generation == n, "the manifest's generation equals the file's name"); err != nil {
			return nil, err
		}
	}
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*"))
	if err != nil {
		return nil, err
	}
	for _, pack := range packs {
		raw, err := os.ReadFile(pack)
		if err == nil {
			err = p.readPack(raw, strings.TrimSuffix(filepath.Base(pack), ".pack"))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pack, err)
		}
	}
	return p, nil
}

// readGeneration implements section 3.
func readGeneration(raw []byte, key [32]byte) (*manifest, error) {
	if len(raw) < 16+96 {
		return nil, errors.New("a generation is too short")
	}
	n := number(raw[12:16])
	if uint64(len(raw)) != 16+n+96 {
		return nil, errors.New("a generation of another length")
	}
	text, seal := raw[16:16+n], raw[16+n:]
	id := make([]byte, 16)
	blake3.DeriveKey("phos 2026 name of a key that seals manifests", key[:], id)
	keyed, err := blake3.NewKeyed(key[:])
	if err != nil {
		return nil, err
	}
	_, _ = keyed.Write(raw[:len(raw)-64])
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	return m, errors.Join(
		require(string(raw[:8]) == "phosgen\n" && number(raw[8:12]) == 1, "the head of a generation"),
		require(
			n <= 16<<20 && bytes.Count(text, []byte("{"))*24 <= len(text)+4096,
			"the length of a manifest, and its objects",
		),
		require(m.Version == 1, "the version of the manifest"),
		require(string(seal[:8]) == "phosseal" && number(seal[8:12]) == 1, "the seal"),
		require(number(seal[12:16]) == uint64(m.Owner.UID), "the owner in the seal"),
		require(bytes.Equal(seal[16:32], id), "the key id"),
		require(bytes.Equal(seal[32:64], keyed.Sum(nil)), "the tag"),
		require(bytes.Equal(seal[64:], b3(32, raw[:len(raw)-32])), "the check"),
	)
}

// readPack implements section 4. It reads the index, then walks the slots; both must give the same.
func (p *picture) readPack(raw []byte, id string) error {
	if len(raw) < 128 {
		return errors.New("a pack is too short")
	}
	head, trailer := raw[:64], raw[len(raw)-64:]
	if err := errors.Join(
		require(string(head[:8]) == "phospack" && number(head[8:12]) == 1 && number(head[12:16]) == 0,
			"the header of the pack"),
		require(hex.EncodeToString(head[16:32]) == p.store && hex.EncodeToString(head[32:48]) == id, "the ids of the pack"),
		require(bytes.Equal(head[48:], b3(16, head[:48])), "the check of the pack's header"),
		require(string(trailer[:8]) == "phosindx" && number(trailer[8:12]) == 1 && number(trailer[12:16]) == 0,
			"the trailer"),
	); err != nil {
		return err
	}
	at, entries := number(trailer[16:24]), number(trailer[24:32])
	if at%64 != 0 || at > uint64(len(raw)-64) || at+56*entries+64 != uint64(len(raw)) {
		return errors.New("index, entries and trailer do not fill the file to its end")
	}
	if err := require(bytes.Equal(trailer[32:], b3(32, raw[at:len(raw)-32])), "the sum of the index"); err != nil {
		return err
	}
	found := map[string]uint64{}
	last := make([]byte, 32)
	for entry := raw[at : len(raw)-64]; len(entry) > 0; entry = entry[56:] {
		hash, offset, length := entry[:32], number(entry[32:40]), number(entry[40:44])
		if bytes.Compare(last, hash) >= 0 || offset < 128 || offset+length > at || number(entry[49:56]) != 0 {
			return errors.New("an entry of the index differs from the page")
		}
		last, found[string(hash)] = hash, offset
		p.contents[string(hash)] = append(
			p.contents[string(hash)],
			stored{raw[offset : offset+length], entry[48], number(entry[44:48])},
		)
	}
	return slots(raw[:at], head[32:48], found)
}

// slots walks a pack without its index.
func slots(raw, id []byte, found map[string]uint64) error {
	seen := map[string]bool{}
	for at := 0; at < len(raw); {
		head := raw[at:min(at+64, len(raw))]
		if at > 0 && (len(head) < 64 || string(head[:8]) != "phosrun\n") {
			if at+twoMiB > len(raw) {
				return fmt.Errorf("a slot at %d is cut off", at)
			}
			hash := string(b3(32, raw[at:at+twoMiB]))
			if offset, named := found[hash]; !named || offset != uint64(at) {
				return fmt.Errorf("the index does not name the chunk at %d", at)
			}
			seen[hash] = true
			at += twoMiB
			continue
		}
		if at > 0 {
			if err := errors.Join(
				require(number(head[8:12]) == 1 && number(head[12:16]) == 0 && number(head[24:32]) == 0, "the header of a run"),
				require(number(head[16:24]) == uint64(at) && bytes.Equal(head[32:48], id), "offset and id of a run"),
				require(bytes.Equal(head[48:], b3(16, head[:48])), "the check of a run"),
			); err != nil {
				return err
			}
		}
		end, err := records(raw, at+64, found, seen)
		if err != nil {
			return err
		}
		at = min((end+twoMiB-1)/twoMiB*twoMiB, len(raw))
		if err := require(len(bytes.Trim(raw[end:at], "\x00")) == 0, "zeros behind a run, at %d", end); err != nil {
			return err
		}
	}
	return require(len(seen) == len(found), "the index has %d contents, the pack %d", len(found), len(seen))
}

// records reads the records of a run, and returns where they end.
func records(raw []byte, at int, found map[string]uint64, seen map[string]bool) (end int, err error) {
	for at+64 <= len(raw) && string(raw[at:at+4]) == "chnk" {
		head := raw[at : at+64]
		if err := checkRecord(head); err != nil {
			return at, err
		}
		pad, length := int(number(head[16:20])), int(number(head[12:16]))
		body := at + 64 + pad
		next := (body + length + 63) / 64 * 64
		if next > len(raw) {
			return at, fmt.Errorf("a record at %d is cut off", at)
		}
		hash := string(head[32:])
		if err := errors.Join(
			require(found[hash] == uint64(body), "the index names the record at %d", at),
			require(len(bytes.Trim(
				bytesOf(raw[at+64:body], raw[body+length:next]), "\x00",
			)) == 0, "zeros around the content at %d", body),
			require(length < 65536 && pad == 0 || length >= 65536 && body%4096 == 0, "the padding of the record at %d", at),
		); err != nil {
			return at, err
		}
		seen[hash] = true
		at = next
	}
	return at, nil
}

func checkRecord(head []byte) error {
	content, length := number(head[8:12]), number(head[12:16])
	return errors.Join(
		require(head[4] <= 1 && number(head[5:8]) == 0 && number(head[20:24]) == 0, "the encoding of a record"),
		require(content >= 1 && content <= twoMiB && number(head[16:20]) < 4096, "the lengths of a record"),
		require(
			head[4] == 0 && length == content || head[4] == 1 && length > 16 && length < content,
			"the stored length of a record",
		),
		require(bytes.Equal(head[24:32], b3(8, head[:24], head[32:])), "the check of a record"),
	)
}

// readStream implements section 6. It returns a picture of one generation.
func readStream(raw []byte, key [32]byte) (*picture, error) {
	p := &picture{generations: map[uint64]*manifest{}, contents: map[string][]stored{}}
	if len(raw) < 32 || string(raw[:8]) != "phosstrm" || number(raw[8:16]) != 1 ||
		!bytes.Equal(raw[16:32], b3(16, raw[:16])) {
		return nil, errors.New("wrong header of the stream")
	}
	for raw, n := raw[32:], uint64(0); len(raw) >= 16; {
		if string(raw[:4]) == "chnk" && len(raw) >= 64 {
			head, length := raw[:64], number(raw[12:16])
			if err := errors.Join(checkRecord(head), require(number(head[16:20]) == 0, "no padding in a stream")); err != nil {
				return nil, err
			}
			p.contents[string(head[32:])] = append(
				p.contents[string(head[32:])],
				stored{raw[64 : 64+length], head[4], number(head[8:12])},
			)
			raw, n = raw[64+length:], n+1
			continue
		}
		if !bytes.Equal(raw[12:16], b3(4, raw[:12])) {
			return nil, errors.New("wrong check of a frame")
		}
		length := number(raw[4:12])
		switch string(raw[:4]) {
		case "mnfs":
			m, err := readGeneration(raw[16:16+length], key)
			if err != nil {
				return nil, err
			}
			p.generations[m.Generation] = m
			raw = raw[16+length:]
		case "end\n":
			return p, require(length == n && len(raw) == 16 && len(p.generations) == 1, "the end of the stream")
		default:
			return nil, fmt.Errorf("unknown frame %q", raw[:4])
		}
	}
	return nil, errors.New("the stream has no end")
}

// content returns a content by its hash and verifies it. plain requires one that is stored
// uncompressed.
func (p *picture) content(hash string, plain bool) ([]byte, error) {
	for _, each := range p.contents[hash] {
		content := each.raw
		if each.encoding == 1 {
			if plain {
				continue
			}
			frame := each.raw[16:]
			if err := require(bytes.Equal(each.raw[:16], b3(16, frame)), "the sum before a frame"); err != nil {
				return nil, err
			}
			decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(8<<20))
			if err != nil {
				return nil, err
			}
			content, err = decoder.DecodeAll(frame, nil)
			decoder.Close()
			if err != nil {
				return nil, err
			}
		}
		return content, require(
			uint64(len(content)) == each.content && string(b3(32, content)) == hash,
			"the hash of a content",
		)
	}
	return nil, fmt.Errorf("content %x not found (plain: %v)", hash, plain)
}

// entry is a file or a memory with its content.
type entry struct {
	kind   byte
	name   string
	chunks []chunk
}

type chunk struct {
	address uint64
	content []byte
}

// tree implements section 5.
func (p *picture) tree(hash string) ([]entry, error) {
	raw, err := p.content(hash, true)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(raw, []byte("phoslist")) {
		if raw, err = p.join(raw); err != nil {
			return nil, err
		}
	}
	if len(raw) < 16 || string(raw[:8]) != "phostree" || number(raw[8:12]) != 1 {
		return nil, errors.New("wrong head of a tree")
	}
	entries, last := make([]entry, number(raw[12:16])), ""
	raw = raw[16:]
	for i := range entries {
		name, total, count := number(raw[2:4]), number(raw[4:12]), number(raw[12:20])
		e := &entries[i]
		e.kind, e.name = raw[0], string(raw[20:20+name])
		if err := require(
			raw[1] == 0 && last < e.name && name >= 1 && name <= 4095, "the order of entries, at %q", e.name,
		); err != nil {
			return nil, err
		}
		raw, last = raw[20+name:], e.name
		for j := range count {
			each, err := p.chunk(raw[:44])
			if err == nil && e.kind == 1 {
				err = require(
					each.address == j*twoMiB && (j+1 == count || len(each.content) == twoMiB),
					"the chunks of file %q",
					e.name,
				)
			}
			if err != nil {
				return nil, err
			}
			total -= uint64(len(each.content))
			e.chunks, raw = append(e.chunks, each), raw[44:]
		}
		if err := require(total == 0, "the chunks of %q add up", e.name); err != nil {
			return nil, err
		}
	}
	return entries, require(len(raw) == 0, "nothing behind a tree")
}

func (p *picture) join(list []byte) (raw []byte, err error) {
	parts := list[24:]
	if number(list[8:12]) != 1 || uint64(len(parts)) != 32*number(list[12:16]) {
		return nil, errors.New("wrong head of a list")
	}
	for ; len(parts) > 0; parts = parts[32:] {
		part, err := p.content(string(parts[:32]), true)
		if err != nil {
			return nil, err
		}
		if err := require(len(part) == twoMiB || len(parts) == 32, "parts of a list are 2 MiB"); err != nil {
			return nil, err
		}
		raw = append(raw, part...)
	}
	return raw, require(
		uint64(len(raw)) == binary.LittleEndian.Uint64(list[16:24]) && len(raw) > twoMiB,
		"the bytes of a list",
	)
}

func (p *picture) chunk(raw []byte) (each chunk, err error) {
	length := number(raw[8:12])
	each.address = number(raw[:8])
	if err := require(
		length >= 1 && each.address%twoMiB+length <= twoMiB, "a chunk crosses no multiple of 2 MiB",
	); err != nil {
		return each, err
	}
	if number(raw[12:]) == 0 && bytes.Equal(raw[12:], make([]byte, 32)) {
		each.content = make([]byte, length)
		return each, nil
	}
	if each.content, err = p.content(string(raw[12:]), false); err == nil {
		err = require(uint64(len(each.content)) == length, "a chunk has the length that the tree says")
	}
	return each, err
}
