package main

import (
	"debug/elf"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
)

func main() {
	f, err := elf.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Size < 1000 {
			continue
		}
		if s.Name == ".nv_fatbin" || s.Name == "__nv_relfatbin" {
			data, _ := s.Data()
			fmt.Println(s.Name, len(data))
			n := 0
			for at := 0; at+16 < len(data); {
				if data[at] != 0x50 || data[at+1] != 0xed || data[at+2] != 0x55 || data[at+3] != 0xba {
					at += 8
					continue
				}
				img, err := fatbin.Parse(data[at:])
				if err != nil {
					fmt.Println(at, err)
					at += 8
					continue
				}
				fmt.Print(s.Name, " ", n, " at ", at, " bytes ", len(img.Whole))
				for _, c := range img.Cubins {
					fmt.Print(" cubin sm", c.SM)
				}
				for i, t := range img.Texts {
					fmt.Print(" ptx ", t.SM, " ", len(t.PTX))
					os.WriteFile(fmt.Sprintf("/tmp/n/ptx/%s.%d.%d.ptx", s.Name[1:], n, i), []byte(t.PTX), 0o644)
				}
				fmt.Println()
				at += len(img.Whole)
				n++
			}
		}
	}
}
