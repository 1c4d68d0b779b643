package process

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

func TestProgramPagesAreReleased(t *testing.T) {
	resident := func() int {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(text)
		if m == nil {
			t.Skip("this kernel does not say how much of files is resident")
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := resident()
	if err := releaseProgramPages(); err != nil {
		t.Fatal(err)
	}
	if after := resident(); after > before*3/4 {
		t.Errorf("%d of %d kB of files are still resident", after, before)
	}
}
