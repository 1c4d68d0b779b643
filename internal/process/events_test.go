package process

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

// TestManyEventsOfOneReasonLeaveRoomForOthers: a policy that is restored again and again hides no other warning about its component.
func TestManyEventsOfOneReasonLeaveRoomForOthers(t *testing.T) {
	c := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{SpamKeyFunc: spamKeyOf})
	passes := func(reason, message string) bool {
		got, err := c.EventCorrelate(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, Source: corev1.EventSource{Component: "sluice"}, Type: corev1.EventTypeWarning,
			Reason: reason, Message: message, InvolvedObject: corev1.ObjectReference{Kind: "Component", Name: "c"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return !got.Skip
	}
	told := 0
	for range 60 {
		if passes("Restored", "it is as it was again") {
			told++
		}
	}
	if told == 60 {
		t.Error("no event is held back")
	}
	if !passes("SettingsPutBack", "it is there again") {
		t.Error("the other warning is held back")
	}
}
