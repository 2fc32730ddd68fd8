package console

// notice is a sentence that tells what has just been done, on the page that follows.
// The browser carries its number there, so that nobody else can put words in.
type notice int

// The notices.
const (
	noticeNone notice = iota
	noticeSignedOut
	noticeSessionEnded
	noticePasswordChanged
	noticePasswordReset
	noticeUserCreated
	noticeHostReleased
	noticeProjectCreated
	noticeProjectDeleted
	noticeEnvironmentCreated
	noticeEnvironmentDeleted
	noticeMemberSet
	noticeMemberRemoved
	noticeTokenRevoked
	noticeAppCreated
	noticeAppDeleted
	noticeGateOn
	noticeGateOff
	noticeGitSet
	noticeGitRemoved
	noticeWebhookEnabled
	noticeWebhookRegenerated
	noticeWebhookDisabled
	noticeTrustAdded
	noticeTrustRemoved
	noticeDeployed
	noticeRolledBack
	noticePromoted
	noticeBuildRequested
	noticePlanCreated
	noticePlanChanged
	noticePlanDeleted
	noticeKeyChanged
	noticeKeyDisabled
	noticeKeyEnabled
	noticeKeyRevoked
	noticeIssuedBefore
	noticeNothingChanged
	noticeSecretCurrent
	noticeSecretPrevious
	noticeSecretRefused
	noticeSecretUnknown
	noticeLeakReported
	noticeProjectChanged
	noticePreflightSet
	noticeAddressSet
)

// text is what a notice says; "" of one that does not exist.
func (n notice) text() string { //nolint:funlen // a table
	texts := map[notice]string{
		noticeSignedOut:          "You are signed out.",
		noticeSessionEnded:       "Your session has ended. Sign in to go on; what was not saved yet was not done.",
		noticePasswordChanged:    "The password is changed, and all of your sessions have ended. Sign in with the new one.",
		noticePasswordReset:      "The password is set, and all sessions of that user have ended.",
		noticeHostReleased:       "The host is released. An app of any project can have it.",
		noticeUserCreated:        "The user can sign in now. Projects show once somebody makes them a member.",
		noticeProjectCreated:     "The project is created.",
		noticeProjectDeleted:     "The project is deleted.",
		noticeEnvironmentCreated: "The environment is created.",
		noticeEnvironmentDeleted: "The environment is deleted.",
		noticeMemberSet:          "The member's role is saved.",
		noticeMemberRemoved:      "The member is removed.",
		noticeTokenRevoked:       "The service token is revoked. It opens nothing any more.",
		noticeAppCreated:         "The app is created.",
		noticeAppDeleted:         "The app is deleted. Its host is reserved for the project for 30 days.",
		noticeGateOn:             "Require API key is switched on.",
		noticeGateOff:            "Require API key is switched off.",
		noticeGitSet:             "The git source is saved. The next build is from it.",
		noticeGitRemoved:         "The git source is removed. The app keeps running its current image.",
		noticeWebhookEnabled:     "The webhook is enabled. Show its token to set up your pipeline.",
		noticeWebhookRegenerated: "The webhook has a new token. The old one is worth nothing any more.",
		noticeTrustAdded:         "Those pipelines deploy the app from now on. What goes into CI is below.",
		noticeTrustRemoved:       "Those pipelines deploy nothing any more.",
		noticeWebhookDisabled:    "The webhook is disabled. Its token is worth nothing any more.",
		noticeDeployed:           "The deployment is recorded and on its way.",
		noticeRolledBack:         "The rollback is recorded and on its way.",
		noticePromoted:           "The promotion is recorded and on its way.",
		noticeBuildRequested:     "The build is recorded and on its way.",
		noticePlanCreated:        "The plan is created.",
		noticePlanChanged:        "The plan is saved.",
		noticePlanDeleted:        "The plan is deleted.",
		noticeKeyChanged:         "The key is saved.",
		noticeKeyDisabled:        "The key is disabled.",
		noticeKeyEnabled:         "The key is enabled again.",
		noticeKeyRevoked:         "The key is revoked for good.",
		noticeIssuedBefore: "That form has issued its key before, and it was shown that once, so nothing was done now. " +
			"A key that was not copied cannot be shown again: rotate it to get a new one.",
		noticeNothingChanged: "Nothing was to change.",
		noticeSecretCurrent:  "This is the key. What you have is its current secret: whoever has it gets through.",
		noticeSecretPrevious: "This is the key. What you have is its secret from before the last rotation, which is still good.",
		noticeSecretRefused:  "This is the key. What you have is a secret of it, but nobody gets through with this key now.",
		noticeLeakReported:   "Report received. If this is a key or a service token, it no longer works. Its project can see who reported it.",
		noticeProjectChanged: "The settings are saved.",
		noticeAddressSet:     "Address saved. The app's page shows the progress of its gate.",
		noticePreflightSet:   "Setting saved. The app's page shows the progress of its gate.",
		noticeSecretUnknown:  "This is the key with that prefix. What you have is none of its secrets any more: nobody gets through with it.",
	}
	return texts[n]
}
