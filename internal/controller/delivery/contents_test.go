package delivery

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestWhatWasAppliedIsRememberedWithinBounds(t *testing.T) {
	c := newContents(100)
	put := func(uid types.UID, digest string, size int) { c.putContent(uid, digest, make([]byte, size)) }
	has := func(uid types.UID, digest string) bool {
		data, ok := c.contentOf(uid, digest)
		return ok && data != nil
	}
	put("a", "1", 25)
	put("b", "1", 25)
	put("c", "1", 25)
	put("d", "1", 25)
	if has("a", "2") || has("x", "1") {
		t.Error("it gives what it was not told")
	}
	put("a", "1", 25) // used again
	put("e", "1", 10)
	if !has("a", "1") || has("b", "1") || !has("c", "1") || !has("e", "1") {
		t.Errorf("not the one that was used least recently is gone: %v", c.of)
	}
	put("a", "2", 10)
	if has("a", "1") || !has("a", "2") || c.size != 70 {
		t.Errorf("%d bytes after it was replaced", c.size)
	}
	put("a", "3", 26)
	if has("a", "2") || has("a", "3") || c.size != 60 {
		t.Errorf("%d bytes after what is too much", c.size)
	}
	c.forgetContent("c")
	c.forgetContent("c")
	if has("c", "1") || c.size != 35 {
		t.Errorf("%d bytes after one is forgotten", c.size)
	}
}
