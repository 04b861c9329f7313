import { isAtLeast, roles, type Role } from './roles.ts';

test.each(['', 'member', 'superuser'])('the unknown role %p may do nothing', (unknown) => {
  expect(roles.filter((needed) => isAtLeast(unknown as Role, needed))).toEqual([]);
});
