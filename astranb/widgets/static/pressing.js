// @ts-check
// A newer picture or answer may exchange what is pressed: browsers then give no click, so that it goes to what is in its place.

const CLICKED = "button, [role=button], [role=treeitem], [role=option]";

/** What a control does: its object, or its words. @param {HTMLElement | SVGElement} control */
const meaning = (control) => control.dataset.path ?? control.dataset.entity ?? (control.getAttribute("title") || control.textContent);

/** The control at a place of the page. @param {EventTarget | null} target @returns {HTMLElement | SVGElement | null} */
const controlAt = (target) => (target instanceof Element ? target.closest(CLICKED) : null);

/** Keep clicks on controls inside an element. @param {HTMLElement} root */
export function keepClicks(root) {
  /** @type {{ control: Element, what: string | null } | null} */
  let pressed = null;
  root.addEventListener("pointerdown", ({ target }) => {
    const control = controlAt(target);
    pressed = control && { control, what: meaning(control) };
  }, true);
  root.addEventListener("pointerup", ({ clientX, clientY }) => {
    const before = pressed;
    pressed = null;
    if (!before || before.control.isConnected) return;
    const now = controlAt(document.elementFromPoint(clientX, clientY));
    if (now && root.contains(now) && meaning(now) === before.what) now.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX, clientY }));
  }, true);
}
