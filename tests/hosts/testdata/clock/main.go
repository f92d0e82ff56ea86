// Command clock prints, for each line of its input, the seconds of the wall clock, and how many
// have passed since it began by the monotonic one.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), int(time.Since(began).Seconds()))
	}
}
